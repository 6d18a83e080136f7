"""A model of 4 GB of weights, inspected or rewritten: ``python large.py inspect|rewrite MODEL``, which prints JSON.

A program of its own, so that its peak memory is that of the one thing that it does.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import onnx_ir as ir

from gelu_deploy.timing.memory import peak

WIDTH, HIDDEN, BLOCKS = 4096, 16384, 8


def inspect(path: str) -> int:
    """What ``inspect`` does."""
    import gelu_deploy

    return len(gelu_deploy.inspect(path)["sites"])


def rewrite(path: str) -> int:
    """Recognise, rewrite and save."""
    from gelu_deploy.graph import hollow
    from gelu_deploy.graph.opening import open_graph
    from gelu_deploy.graph.recognize import find
    from gelu_deploy.graph.rewrite import Rewrite

    graph = open_graph(path)
    found = find(graph.model).sites
    Rewrite(found).apply(graph.model)
    hollow.put_back(graph.model, graph.held)
    ir.save(graph.model, Path(path).with_name("out.onnx"), external_data="out.data")
    return len(found)


def write(path: Path) -> None:
    """Feed-forward blocks of half a GB each; their weights are in a file beside the model, which is sparse."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 17}, name="large")
    x = value = ir.val("x", ir.DataType.FLOAT, ("n", WIDTH))
    graph.inputs.append(x)
    data, offset = path.with_suffix(".data"), 0

    def op(kind: str, *inputs: ir.Value) -> ir.Value:
        node = ir.node(kind, list(inputs), name=f"n{len(graph)}")
        node.outputs[0].name = f"v{len(graph)}"
        graph.append(node)
        return node.outputs[0]

    def weight(name: str, *shape: int) -> ir.Value:
        nonlocal offset
        length = 4 * math.prod(shape)
        tensor = ir.ExternalTensor(data.name, offset, length, ir.DataType.FLOAT, shape=ir.Shape(shape), name=name)
        offset += length
        graph.initializers[name] = ir.val(name, const_value=tensor)
        return graph.initializers[name]

    def scalar(number: float) -> ir.Value:
        name = f"c{number:.6g}"
        if name not in graph.initializers:
            graph.initializers[name] = ir.val(name, const_value=ir.tensor(np.float32(number), name=name))
        return graph.initializers[name]

    for block in range(BLOCKS):
        inner = op("MatMul", value, weight(f"{block}.up", WIDTH, HIDDEN))
        gate = op("Add", op("Erf", op("Div", inner, scalar(math.sqrt(2)))), scalar(1))
        value = op("MatMul", op("Mul", inner, op("Mul", scalar(0.5), gate)), weight(f"{block}.down", HIDDEN, WIDTH))
    value.name, value.dtype, value.shape = "y", ir.DataType.FLOAT, x.shape
    graph.outputs.append(value)
    with data.open("wb") as file:
        file.truncate(offset)
    ir.save(ir.Model(graph, ir_version=10), path)


if __name__ == "__main__":
    start = time.perf_counter()
    gelus = {"inspect": inspect, "rewrite": rewrite}[sys.argv[1]](sys.argv[2])
    print(json.dumps({"gelus": gelus, "seconds": time.perf_counter() - start, "megabytes": peak() / 1e6}))

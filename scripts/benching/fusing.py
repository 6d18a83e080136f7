"""One tool finds and fuses the GELUs of graphs in memory: ``PYTHON fusing.py TOOL``, in the Python that has the tool.

Each line on standard input is ``OPERATORS GELUS``; each on standard output what one run on such a graph took, in JSON.
It is a program of its own, so that no tool shares a process with another.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

WIDTH = 8
OPSET = 20


@cache
def chain(operators: int, sites: int) -> ir.Model:
    """A graph of element-wise and matrix operators with ``sites`` GELUs, in torch's order."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name="chain")
    x = ir.val("x", ir.DataType.FLOAT, ("n", WIDTH))
    graph.inputs.append(x)

    def constant(name: str, array: Any) -> ir.Value:
        value = ir.val(name, const_value=ir.tensor(np.asarray(array, np.float32), name=name))
        graph.initializers[name] = value
        return value

    half, root, one = (constant(f"c{n}", n) for n in (0.5, math.sqrt(2), 1.0))
    weight = constant("w", np.eye(WIDTH))

    def op(kind: str, *inputs: ir.Value) -> ir.Value:
        node = ir.node(kind, list(inputs), name=f"n{len(graph)}")
        value = node.outputs[0]
        value.name, value.dtype, value.shape = f"v{len(graph)}", ir.DataType.FLOAT, x.shape
        graph.append(node)
        return value

    value, filler = x, max(1, operators // sites - 5)
    for _ in range(sites):
        value = op("Mul", value, op("Mul", half, op("Add", op("Erf", op("Div", value, root)), one)))
        for place in range(filler):
            value = op("MatMul", value, weight) if place % 2 else op("Add", value, one)
    value.name = "y"
    graph.outputs.append(value)
    return ir.Model(graph, ir_version=10)


def gelu_deploy(model: ir.Model) -> int:
    """Recognise and rewrite."""
    from gelu_deploy.graph.recognize import find
    from gelu_deploy.graph.rewrite import Rewrite

    found = find(model).sites
    Rewrite(found).apply(model)
    return len(found)


def onnxscript(model: ir.Model) -> int:
    """onnxscript's rewriter with its GELU rules alone."""
    from onnxscript.rewriter.ort_fusions.erfgelu import rules as erf_rules
    from onnxscript.rewriter.ort_fusions.gelu import gelu_rules

    return int(gelu_rules.apply_to_model(model)) + int(erf_rules.apply_to_model(model))


def onnxruntime(model: Any) -> int:
    """The GELU fusion of ONNX Runtime's Python optimizer alone."""
    from onnxruntime.transformers.fusion_gelu import FusionGelu
    from onnxruntime.transformers.onnx_model import OnnxModel

    held = OnnxModel(model)
    FusionGelu(held).apply()
    return len(held.get_nodes_by_op_type("Gelu"))


def copied(tool: str, model: ir.Model) -> Any:
    """What the tool works on; making it is not timed."""
    return ir.to_proto(model) if tool == "onnxruntime" else model.clone()


def main() -> None:
    """Answer until the lines end. What a tool prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tool = sys.argv[1]
    work: Callable[[Any], int] = globals()[tool]
    work(copied(tool, chain(40, 2)))  # imports are not timed
    for line in sys.stdin:
        operators, sites = map(int, line.split())
        given = copied(tool, chain(operators, sites))
        gc.collect()
        start = time.perf_counter()
        count = work(given)
        seconds = time.perf_counter() - start
        answers.write(json.dumps({"seconds": seconds, "gelus": count}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

"""What every network made ready for INT8 must be, for the tests of that: its layers, its names, its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from graphs import Expression, Number, erf, op
from onnx import checker

from gelu_deploy import runtime
from gelu_deploy.graph import hollow
from gelu_deploy.graph.recognize import find
from gelu_deploy.parity import Limits, compare
from gelu_deploy.quantization.network import Network
from gelu_deploy.quantization.network.prepare import prepared

RANDOM = np.random.default_rng(0)
ROOT2 = float(np.sqrt(2))


def random(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[0]))


W, V, B, C = random(8, 16), random(16, 8), random(16), random(8)


def linear(x: Expression, weight: Any, bias: Expression | Number) -> Expression:
    product: Expression = op("MatMul", x, weight)
    return product + bias


def block(x: Expression) -> Expression:
    hidden = linear(x, W, B)
    return linear(hidden * (1 + erf(hidden / ROOT2)) * 0.5, V, C)


def saved(graph: ir.Model, folder: Path) -> str:
    ir.save(graph, folder / "model.onnx")
    return str(folder / "model.onnx")


def ops(network: Network) -> Counter[str]:
    return Counter(node.op_type for node in network.model.graph)


def ready(path: str, feeds: Mapping[str, Any] | None = None, **options: Any) -> Network:
    """What ``prepared`` makes of a file, after everything that must hold for every file was looked at."""
    network = prepared(path, **options)
    feeds = feeds or {"x": RANDOM.standard_normal((3, 5, 8)).astype(np.float32)}
    wanted = runtime.evaluate(Path(path), feeds, optimise=False)
    for optimise in (False, True):
        got = network.showing([], optimise=optimise)(feeds)
        stage = compare("ready", ((name, got[name], wanted[name]) for name in wanted), Limits())
        assert stage["passed"], stage
    whole = network.whole()
    checker.check_model(ir.to_proto(whole), full_check=True)
    names = [node.name for node in whole.graph.all_nodes()]
    assert all(names)
    assert len(set(names)) == len(names)
    assert all(site.spelling == "gelu" or site.form == "sigmoid" for site in find(network.model).sites)
    assert_layers(network, whole)
    assert all(
        value.const_value is None or value.const_value.nbytes < hollow.LARGE or not held(value)
        for value in inner(network)
    )
    return network


def inner(network: Network) -> list[ir.Value]:
    return list(network.model.graph.initializers.values())


def held(value: ir.Value) -> bool:
    """Whether only products read it."""
    return {node.op_type for node, _ in value.uses()} <= {"MatMul", "Gemm"}


def assert_layers(network: Network, whole: ir.Model) -> None:
    """Each one is there, in order, reads an initializer itself, and is described as it stands."""
    nodes = {node.name: node for node in whole.graph}
    order = list(nodes)
    places = [order.index(layer.node) for layer in network.layers]
    assert places == sorted(places)
    for layer in network.layers:
        node = nodes[layer.node]
        reads = [value.name if value is not None else "" for value in node.inputs]
        assert (node.op_type, reads[:2], node.outputs[0].name) == (layer.op, [layer.input, layer.weight], layer.output)
        assert reads[2:] == ([layer.bias] if layer.bias else [])
        assert whole.graph.initializers[layer.weight].shape == network.array(layer.weight).shape
        assert network.array(layer.weight).shape[layer.axis] == node.outputs[0].shape[1 if layer.op == "Conv" else -1]  # type: ignore[index]
        assert not layer.bias or network.array(layer.bias).ndim == 1


def again(network: Network, folder: Path) -> Network:
    """The same once more: there is nothing left to do."""
    second = prepared(saved(network.whole(), folder))
    assert second.notes == []
    assert second.layers == network.layers
    assert ir.to_proto(second.whole()).graph.node == ir.to_proto(network.whole()).graph.node
    return second

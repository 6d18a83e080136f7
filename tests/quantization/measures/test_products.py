"""Layers as matrix products: the same numbers as the runtime's own operators give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from gelu_deploy import runtime
from gelu_deploy.quantization.measures.products import depthwise, matrices, rows, spread
from gelu_deploy.quantization.network import Layer


def one_node(op: str, x: np.ndarray[Any, Any], weight: np.ndarray[Any, Any], **attributes: Any) -> ir.Model:
    source = ir.val("x", ir.DataType.FLOAT, ir.Shape(x.shape))
    held = ir.val("w", const_value=ir.tensor(weight, name="w"))
    node = ir.node(op, [source, held], attributes, name="layer")
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([source], node.outputs, nodes=[node], initializers=[held], opset_imports={"": 20})
    return ir.Model(graph, ir_version=10)


def layer(op: str, axis: int) -> Layer:
    return Layer("layer", op, "", "x", "w", "", "y", axis, 0, after_gelu=False)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"strides": [2, 1], "pads": [1, 0, 2, 1]},
        {"dilations": [2, 3], "pads": [2, 2, 2, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
        {"auto_pad": "VALID"},
    ],
    ids=str,
)
def test_rows_times_matrices_is_the_convolution(groups: int, how: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 4, 9, 10)).astype(np.float32)
    weight = random.normal(size=(8, 4 // groups, 3, 2)).astype(np.float32)
    model = one_node("Conv", x, weight, group=groups, **how)
    expected = runtime.evaluate(model, {"x": x}, optimise=False)["y"]
    node = model.graph.node("layer")
    mine = rows(layer("Conv", 0), node, x, weight, 10**6) @ matrices(layer("Conv", 0), node, weight)
    flat = np.moveaxis(expected, 1, -1).reshape(-1, 8)
    np.testing.assert_allclose(np.concatenate(list(mine), axis=-1), flat, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "axis", "how"),
    [("Gemm", 1, {}), ("Gemm", 0, {"transB": 1}), ("Gemm", 1, {"transA": 1}), ("MatMul", 1, {})],
)
def test_rows_times_matrices_is_the_product(op: str, axis: int, how: dict[str, int]) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(6, 6) if op == "Gemm" else (2, 3, 6)).astype(np.float32)
    weight = random.normal(size=(5, 6) if axis == 0 else (6, 5)).astype(np.float32)
    model = one_node(op, x, weight, **how)
    expected = runtime.evaluate(model, {"x": x}, optimise=False)["y"].reshape(-1, 5)
    node = model.graph.node("layer")
    (mine,) = rows(layer(op, axis), node, x, weight, 100) @ matrices(layer(op, axis), node, weight)
    np.testing.assert_allclose(mine, expected, atol=1e-5)
    (fewer,) = rows(layer(op, axis), node, x, weight, 3)
    assert fewer.shape == (3, 6)


def test_a_sample_is_even_and_never_repeats() -> None:
    assert spread(10, 4).tolist() == [0, 3, 6, 9]
    assert spread(3, 100).tolist() == [0, 1, 2]
    assert spread(0, 4).tolist() == []


def test_only_one_channel_per_group_and_output_is_depthwise() -> None:
    x = np.zeros((1, 4, 5, 5), np.float32)
    for outputs, groups, expected in ((4, 4, True), (8, 4, False), (4, 2, False)):
        weight = np.zeros((outputs, 4 // groups, 3, 3), np.float32)
        assert depthwise(one_node("Conv", x, weight, group=groups).graph.node("layer"), weight) == expected

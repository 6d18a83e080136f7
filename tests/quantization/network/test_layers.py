"""What is a layer and what is none, however its weight reaches it; what is said of those that stay float."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, model, op
from ready_networks import RANDOM, B, V, W, block, inner, linear, ops, random, ready, saved

from gelu_deploy.errors import ModelError
from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.quantization.network import Layer
from gelu_deploy.quantization.network.layers import measured
from gelu_deploy.quantization.network.prepare import prepared


def alias(x: Expression) -> Expression:
    weight = x.writer.op("Identity", x.writer.op("Identity", W))
    return linear(x, weight, x.writer.op("Identity", B))


WEIGHTS: dict[str, Any] = {
    "through Identity": alias,
    "transposed": lambda x: linear(x, x.writer.op("Transpose", W.T.copy()), B),
    "of sixteen bits, cast": lambda x: linear(x, x.writer.op("Cast", W.astype(np.float16), to=1), B),
    "reshaped": lambda x: linear(x, x.writer.op("Reshape", W.reshape(2, 4, 16), np.array([8, 16])), B),
    "scaled": lambda x: linear(x, x.writer.op("Mul", W, np.float32(2)), B),
}


@pytest.mark.parametrize("home", ["initializer", "constant", "overridable"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_a_weight_that_reaches_its_layer_in_steps_is_one(name: str, home: Any, tmp_path: Path) -> None:
    path = saved(model(WEIGHTS[name], shape=("n", 5, 8), home=home), tmp_path)
    network = ready(path)
    assert ops(network) == Counter(Reshape=2, Gemm=1)
    assert network.array(network.layers[0].weight).shape == (8, 16)
    assert [value.name for value in network.model.graph.inputs] == ["x"]
    replaceable = [note for note in network.notes if "that a caller could replace" in note]
    assert len(replaceable) == (home == "overridable")


def test_two_layers_may_share_a_weight(tmp_path: Path) -> None:
    square, row = random(8, 8), random(8)
    formula = lambda x: linear(op("Gelu", linear(x, square, row)), square, row)  # noqa: E731
    shared = model(formula, shape=("n", 5, 8))
    first, last = [node for node in shared.graph if node.op_type == "MatMul"]
    last.replace_input_with(1, first.inputs[1])
    network = ready(saved(shared, tmp_path))
    assert len({layer.weight for layer in network.layers}) == 1
    assert len(network.layers) == 2


def test_large_weights_are_held_however_they_came(tmp_path: Path) -> None:
    big = random(8, 1024)
    graph = model(lambda x: linear(x, x.writer.op("Identity", big), random(1, 1024)), shape=("n", 5, 8))
    network = ready(saved(graph, tmp_path))
    assert set(network.held.names) == {network.layers[0].weight, network.layers[0].bias}
    assert ops(network) == Counter(Reshape=2, Gemm=1)


@pytest.mark.parametrize("place", ["function", "nested"])
def test_layers_in_functions_are_found(place: Any, tmp_path: Path) -> None:
    network = ready(saved(model(block, shape=("n", 5, 8), place=place), tmp_path))
    assert len(network.layers) == 2
    assert ops(network)["Gelu"] == 1


def test_layers_in_branches_stay_float_and_are_spoken_of(tmp_path: Path) -> None:
    graph = model(block, shape=("n", 5, 8), place="if")
    asked = ir.val("asked", ir.DataType.BOOL, ())
    graph.graph.inputs.append(asked)
    next(node for node in graph.graph if node.op_type == "If").replace_input_with(0, asked)
    with pytest.raises(ModelError, match=r"nothing to quantize.*layers inside If, Loop or Scan stay float \(2\)"):
        prepared(saved(graph, tmp_path))


def test_normalisation_of_a_batch_is_folded_into_its_convolution(tmp_path: Path) -> None:
    def formula(x: Expression) -> Expression:
        folded = op("Conv", x, random(4, 2, 3, 3), pads=[1, 1, 1, 1])
        normalised = op("BatchNormalization", folded, random(4), random(4), random(4), np.abs(random(4)) + 1)
        return op("Conv", op("Gelu", normalised), random(4, 1, 3, 3), group=4)

    feeds = {"x": RANDOM.standard_normal((3, 2, 6, 6)).astype(np.float32)}
    network = ready(saved(model(formula, shape=("n", 2, 6, 6)), tmp_path), feeds)
    assert ops(network) == Counter(Conv=2, Gelu=1)
    assert [(layer.axis, layer.macs, layer.after_gelu) for layer in network.layers] == [
        (0, 36 * 4 * 2 * 9, False),
        (0, 16 * 4 * 9, True),
    ]
    assert measured(network, feeds) == network.layers


AFTER: dict[str, tuple[Any, bool]] = {
    "scaled": (lambda gelu: gelu * B, True),
    "divided": (lambda gelu: gelu / 3.0, True),
    "cut and turned": (
        lambda gelu: op("Slice", op("Transpose", gelu, perm=[1, 0, 2]), np.array([0]), np.array([2]), np.array([0])),
        True,
    ),
    "a divisor": (lambda gelu: 1.0 / (gelu + 2.0), False),
    "a gate": (lambda gelu: gelu * op("Tanh", gelu), False),
    "shifted": (lambda gelu: gelu + 1.0, False),
}


@pytest.mark.parametrize("what", AFTER)
def test_a_layer_knows_whether_it_reads_a_gelu(what: str, tmp_path: Path) -> None:
    formula, after = AFTER[what]
    graph = model(lambda x: op("MatMul", formula(op("Gelu", op("MatMul", x, W))), V), shape=("n", 5, 8))
    assert [layer.after_gelu for layer in ready(saved(graph, tmp_path)).layers] == [False, after]


def with_one(array: Any, number: float) -> Any:
    changed = array.copy()
    changed.reshape(-1)[3] = number
    return changed


UNFIT: dict[str, tuple[Any, str]] = {
    "a weight": (lambda x: linear(x, with_one(W, np.inf), B), "its weight is not finite"),
    "a bias": (lambda x: linear(x, W, with_one(B, np.nan)), "its bias is not finite"),
    "an axis too many": (lambda x: op("MatMul", x, random(5, 8, 16)), "its weight has 3 axes"),
    "a matrix is added": (
        lambda x: op("Gemm", op("Reshape", x, np.array([-1, 8])), W, random(15, 16)),
        "what it adds is no constant vector",
    ),
    "a scaled bias": (lambda x: op("Gemm", op("Reshape", x, np.array([-1, 8])), W, B, beta=0.5), "it scales its bias"),
    "lying input": (
        lambda x: op("Gemm", op("Reshape", x, np.array([8, -1])), W, B, transA=1),
        "its input is transposed",
    ),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_cannot_be_quantized_stays_float_beside_what_can(what: str, tmp_path: Path) -> None:
    formula, why = UNFIT[what]
    both = lambda x: op("ReduceSum", formula(x), keepdims=0) + op("ReduceSum", op("MatMul", x, W), keepdims=0)  # noqa: E731
    graph = model(both, shape=(3, 5, 8))
    graph.graph.outputs[0].shape = ir.Shape(())
    network = prepared(saved(graph, tmp_path))
    assert [layer.op for layer in network.layers] == ["MatMul"]
    assert any(f"stays float: {why}" in note for note in network.notes), network.notes


def test_a_network_of_sixteen_bits_has_no_integer_kernels(tmp_path: Path) -> None:
    half = model(lambda x: op("MatMul", x, W.astype(np.float16)), shape=("n", 8), dtype=ir.DataType.FLOAT16)
    with pytest.raises(ModelError, match=r"model.onnx: nothing to quantize: .*its weight is float16.*give the float"):
        prepared(saved(half, tmp_path))


def test_an_embedding_that_holds_minus_infinity_stays_as_it_is(tmp_path: Path) -> None:
    table = with_one(random(10, 8), -np.inf)
    network = prepared(saved(model(lambda x: op("Gather", table, op("Cast", linear(x, W, B), to=7))), tmp_path))
    (kept,) = [value for value in inner(network) if tensor_of(value) is not None and tensor_of(value).size == 80]  # type: ignore[union-attr]
    np.testing.assert_array_equal(kept.const_value.numpy(), table)  # type: ignore[union-attr]


def test_nothing_to_quantize_and_no_model_at_all(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model.onnx: nothing to quantize: no Conv, Gemm or MatMul with a constant"):
        prepared(saved(model(lambda x: op("Gelu", op("MatMul", x, x)), shape=(4, 4)), tmp_path))
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"no.onnx"):
        prepared(str(tmp_path / "no.onnx"))


def test_a_layer_is_called_by_its_module_or_its_node() -> None:
    layer = Layer("node", "Gemm", "", "x", "w", "", "y", 1, 0, after_gelu=False)
    assert layer.name == "node"

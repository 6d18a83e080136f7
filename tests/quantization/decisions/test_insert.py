from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import quantize_networks as networks
from quantize_networks import answers, constant, operators, sqnr

from gelu_deploy.arrays import Arrays
from gelu_deploy.errors import ModelError
from gelu_deploy.graph.scopes import module_of
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.network import Integer, Network, Range, Recipe


def quantized(made: Network, data: list[Arrays] | None = None, **kw: object) -> ir.Model:
    values = networks.ranges(made, data or list(networks.feeds(made)))
    return insert.static(made, Recipe(values, **kw))  # type: ignore[arg-type]


def one_gemm(attributes: dict[str, float] | None = None, rows: int = 16, out: int = 24) -> Network:
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", rows))
    settings: dict[str, Any] = dict(attributes or {})
    shape = (out, rows) if settings.get("transB") else (rows, out)
    bias = make.normal("bias", out, scale=1.0)
    return networks.network(make.model([x], make.op("y", "Gemm", x, make.normal("w", *shape), bias, **settings)))


@pytest.mark.parametrize("weight", ["s8", "u8"])
@pytest.mark.parametrize("activation", ["s8", "u8"])
def test_feed_forward_is_one_integer_kernel_a_layer(weight: Integer, activation: Integer) -> None:
    made = networks.ffn(width=64, hidden=256)
    model = quantized(made, weight=weight, activation=activation)
    assert operators(model) == ["QuantizeLinear", "QGemm", "Gelu", "QuantizeLinear", "QGemm"]
    assert constant(model, "fc1.weight_quantized").dtype == {"s8": np.int8, "u8": np.uint8}[weight]
    assert constant(model, "g_zero_point").dtype == {"s8": np.int8, "u8": np.uint8}[activation]
    assert sqnr(made, model, next(networks.feeds(made, seed=7, batch=64))) > 29


@pytest.mark.parametrize(("outliers", "least"), [(0.0, 34.0), (32.0, 28.0)])
def test_fixture_keeps_the_signal(outliers: float, least: float) -> None:
    made = networks.ffn(outliers=outliers)
    model = quantized(made, list(networks.feeds(made, count=1, batch=128)), weight="u8")
    assert sqnr(made, model, next(networks.feeds(made, batch=128, seed=2))) > least


def test_zero_after_gelu_lies_where_the_lobe_ends() -> None:
    model = quantized(networks.ffn(width=64, hidden=256))
    scale, zero = float(constant(model, "g_scale")), int(constant(model, "g_zero_point"))
    assert zero == round(0.17 / scale)
    assert 0 < zero < 20


def test_module_names_are_on_old_and_new_nodes() -> None:
    made = networks.block()
    model = quantized(made)
    modules = {node.name: module_of(node) for node in model.graph}
    assert modules["mlp.act"] == "mlp.act"
    assert modules["mlp.fc2.weight_DequantizeLinear"] == "mlp.fc2"
    assert modules["attn.out.rows_QuantizeLinear"] == "attn.out"
    assert all(modules.values())
    assert model.producer_name == "gelu_deploy"
    assert not model.metadata_props


def test_the_network_is_not_touched_and_the_bytes_are_the_same_twice() -> None:
    made = networks.block()
    before = ir.to_proto(made.whole()).SerializeToString()
    first, second = (ir.to_proto(quantized(made)).SerializeToString() for _ in range(2))
    assert first == second
    assert ir.to_proto(made.whole()).SerializeToString() == before


def test_attention_norms_softmax_and_gelu_stay_float() -> None:
    made = networks.block()
    model = quantized(made)
    for node in model.graph:
        if node.op_type in {"MatMul", "LayerNormalization", "Softmax", "Gelu", "Add"}:
            makers = {value.producer() for value in node.inputs if value is not None}
            assert "DequantizeLinear" not in {maker.op_type for maker in makers if maker is not None}, node.name
    assert operators(model).count("QGemm") == 6


def test_a_residual_stays_float_where_its_value_is_quantized_for_a_layer() -> None:
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    h = make.op("h", "LayerNormalization", x, make.weight("one", np.ones(32)), make.weight("zero", np.zeros(32)))
    y = make.op("y", "Add", h, make.linear("fc", h, 32, 32))
    made = networks.network(make.model([x], y, h))
    model = quantized(made)
    add, feed = model.graph.node("y"), next(networks.feeds(made))
    assert add.inputs[0] is model.graph.node("h").outputs[0]
    assert np.array_equal(answers(model, feed)["h"], answers(made.whole(), feed)["h"])
    assert not [node for node in model.graph if node.op_type == "Identity"]
    assert "QGemm" in operators(model)


def test_an_embedding_that_is_also_a_layer_weight_stays_float() -> None:
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 64))
    table = make.normal("table", 48, 64, scale=0.1)
    found = make.op("found", "Gather", table, make.weight("index", np.array([3, 5])))
    made = networks.network(make.model([x], make.op("y", "Gemm", x, table, transB=1), found))
    feed = next(networks.feeds(made))
    model = quantized(made, [feed])
    assert np.array_equal(answers(model, feed)["found"], constant(model, "table")[[3, 5]])
    assert "QGemm" in operators(model)
    want, got = answers(made.whole(), feed)["y"], answers(model, feed, optimise=False)["y"]
    assert 0 < np.abs(want - got).max() < 0.05


def test_two_layers_of_one_weight_may_be_decided_differently() -> None:
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    w = make.normal("w", 32, 32)
    names, value = ["a", "b", "c", "d"], x
    for name in names:
        value = make.op(name, "Gemm", value, w, make.weight(f"{name}.bias", np.full(32, 0.1)))
    made = networks.network(make.model([x], value))
    model = quantized(made, kept=frozenset({"b"}), unsigned=frozenset({"c"}), weight="s8")
    weights = {node.name: node.inputs[1] for node in model.graph if node.op_type == "Gemm"}
    assert weights["a"] is weights["d"]
    assert weights["c"] not in {weights["a"], None}
    assert weights["b"] is model.graph.initializers["w"]
    assert operators(model).count("QGemm") == 3
    own = [name for name in model.graph.initializers if name.startswith("w.int8.c") and name.endswith("_quantized")]
    assert constant(model, own[0]).dtype == np.uint8


def test_a_kept_layer_is_left_exactly_as_it_is() -> None:
    made = networks.ffn(width=64, hidden=256)
    model = quantized(made, kept=frozenset({"fc2"}))
    assert operators(model) == ["QuantizeLinear", "QGemm", "Gelu", "Gemm"]
    assert constant(model, "fc2.weight").dtype == np.float32
    everything = insert.static(made, Recipe({}, kept=frozenset({"fc1", "fc2"})))
    assert operators(everything) == ["Gemm", "Gelu", "Gemm"]


def test_one_layer_may_have_unsigned_weights_and_the_others_signed() -> None:
    made = networks.ffn(width=64, hidden=256)
    model, signed = quantized(made, weight="s8", unsigned=frozenset({"fc1"})), quantized(made, weight="s8")
    assert np.all(constant(model, "fc1.weight_zero_point") == 128)
    own = constant(model, "fc1.weight_quantized").astype(int) - 128
    np.testing.assert_array_equal(own, constant(signed, "fc1.weight_quantized"))
    assert constant(model, "fc2.weight_quantized").dtype == np.int8
    assert operators(model).count("QGemm") == 2


def test_both_weight_types_hold_the_same_numbers() -> None:
    made, data = networks.ffn(width=64, hidden=256), list(networks.feeds(networks.ffn(width=64, hidden=256)))
    signed, unsigned = (quantized(made, data, weight=weight) for weight in ("s8", "u8"))
    first, second = (answers(model, data[0], optimise=False)["y"] for model in (signed, unsigned))
    assert np.array_equal(first, second)


def test_weights_are_per_channel() -> None:
    model = quantized(networks.conv())
    assert constant(model, "conv2.weight_scale").shape == (8,)
    assert constant(model, "head.weight_scale").shape == (10,)


@pytest.mark.parametrize("grouped", [False, True])
def test_convolutions_are_integer_with_a_quantized_output(grouped: bool) -> None:
    made = networks.conv(grouped=grouped)
    model = quantized(made, weight="u8")
    found = operators(model)
    assert found.count("QLinearConv") == 2
    assert "ConvInteger" not in found
    assert insert.needed(made.layers) == ("x", "conv1", "act", "conv2", "flat")
    assert sqnr(made, model, next(networks.feeds(made, seed=5))) > 28


def test_two_convolutions_in_a_row_share_one_pair() -> None:
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 4, 8, 8))
    first = make.op("first", "Conv", x, make.normal("w1", 8, 4, 3, 3, scale=0.2))
    second = make.op("second", "Conv", first, make.normal("w2", 8, 8, 3, 3, scale=0.2))
    made = networks.network(make.model([x], make.op("y", "Add", first_cut(make, first), second)))
    model = quantized(made, weight="u8")
    assert [node.op_type for node in model.graph].count("QuantizeLinear") == 3
    assert operators(model).count("QLinearConv") == 2


def first_cut(make: networks.Builder, value: ir.Value) -> ir.Value:
    bounds = [make.weight(name, np.array([at, at])) for name, at in (("from", 1), ("to", -1))]
    return make.op("cut", "Slice", value, *bounds, make.weight("axes", np.array([2, 3])))


def test_a_bias_of_shape_1_n_is_taken_for_the_vector_that_it_is() -> None:
    made = networks.ffn(width=64, hidden=256, bias_rows=True)
    assert operators(quantized(made)) == ["QuantizeLinear", "QGemm", "Gelu", "QuantizeLinear", "QGemm"]


def test_a_contrib_gelu_does_not_leave_the_next_layer_in_float() -> None:
    made = networks.ffn(width=64, hidden=256, contrib="FastGelu")
    made.model.graph.node("act").outputs[0].type = None
    data = [{"x": feed["x"]} for feed in networks.feeds(made)]
    model = insert.static(made, Recipe({"x": (-4.0, 4.0), "g": (-0.17, 4.0)}))
    assert operators(model) == ["QuantizeLinear", "QGemm", "FastGelu", "QuantizeLinear", "QGemm"]
    assert answers(model, data[0])["y"].shape == (4, 64)


@pytest.mark.parametrize("attributes", [{"alpha": 0.5}, {"beta": 0.25}, {"alpha": 2.0, "beta": 3.0, "transB": 1}])
def test_factors_of_a_gemm_go_into_its_constants(attributes: dict[str, float]) -> None:
    made = one_gemm(attributes)
    feed = next(networks.feeds(made, seed=3))
    model = quantized(made, [feed], weight="u8")
    assert operators(model) == ["QuantizeLinear", "QGemm"]
    assert sqnr(made, model, feed) > 32


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (2.0, 3.0), (-3.0, -2.0)])
def test_a_range_without_zero_or_width_gives_finite_answers(low: float, high: float) -> None:
    made = one_gemm()
    model = insert.static(made, Recipe({"x": (low, high)}, weight="u8"))
    feed = {"x": np.full((2, 16), (low + high) / 2, np.float32)}
    want, got = answers(made.whole(), feed)["y"], answers(model, feed)["y"]
    assert np.allclose(want, got, atol=0.1)
    assert int(constant(model, "x_zero_point")) == {0.0: 0, 2.0: 0, -3.0: 255}[low]


def test_a_bias_far_beyond_its_weights_does_not_overflow() -> None:
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 16))
    w = make.random.normal(size=(16, 24))
    w[:, 3] *= 1e-12
    y = make.op("y", "Gemm", x, make.weight("w", w), make.weight("bias", np.full(24, 5.0)))
    made = networks.network(make.model([x], y))
    for weight in ("s8", "u8"):
        got = answers(quantized(made, weight=weight), next(networks.feeds(made)))["y"]
        assert np.allclose(got[:, 3], 5.0, atol=1e-3)


@pytest.mark.parametrize("found", [{}, {"x": (float("-inf"), 1.0)}, {"x": (0.0, float("nan"))}])
def test_a_range_that_is_no_range_is_refused_by_name(found: dict[str, Range]) -> None:
    with pytest.raises(ModelError, match="the value x has the range"):
        insert.static(one_gemm(), Recipe(found))


def test_a_convolution_may_be_the_output_of_the_network() -> None:
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 3, 8, 8))
    made = networks.network(make.model([x], make.op("y", "Conv", x, make.normal("w", 4, 3, 3, 3, scale=0.2))))
    model, feed = quantized(made, weight="u8"), next(networks.feeds(made))
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert "QLinearConv" in operators(model)
    assert sqnr(made, model, feed) > 30

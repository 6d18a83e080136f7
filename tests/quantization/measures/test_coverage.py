from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import quantize_networks as networks

from gelu_deploy.errors import ModelError
from gelu_deploy.quantization.decisions import half, insert
from gelu_deploy.quantization.decisions.quiet import quiet
from gelu_deploy.quantization.measures import causes, coverage
from gelu_deploy.quantization.network import Layer, Network, Recipe

Make = Callable[[Network], ir.Model]


def static(made: Network, *kept: str) -> ir.Model:
    values = networks.ranges(made, list(networks.feeds(made)))
    return insert.static(made, Recipe(values, kept=frozenset(kept)))


def seen(made: Network, model: ir.Model) -> coverage.Coverage:
    return coverage.coverage(model, made.layers)


def kinds(found: coverage.Coverage, batch: int = 64) -> list[str]:
    return [cause.kind for cause in causes.causes(found, batch=batch)]


@pytest.mark.parametrize(
    ("make", "kernel"),
    [(static, "QGemm"), (insert.dynamic, "DynamicQuantizeMatMul"), (insert.weight_only, "MatMulNBits")],
)
def test_every_precision_is_integer_and_nothing_fell_back(make: Make, kernel: str) -> None:
    made = networks.ffn(width=64, hidden=256)
    found = seen(made, make(made))
    assert [(one.name, one.kernels, one.integer, one.reason) for one in found.layers] == [
        ("fc1", (kernel,), True, ""),
        ("fc2", (kernel,), True, ""),
    ]
    assert found.share == 1
    assert found.macs == 2 * 64 * 256
    assert kinds(found) == []
    coverage.require(found)


def test_operators_are_those_of_the_runtime_in_order() -> None:
    made = networks.ffn(width=64, hidden=256)
    operators = seen(made, static(made)).operators
    assert operators == ("QuantizeLinear", "QGemm", "Gelu", "QuantizeLinear", "QGemm")


def test_layers_that_are_dequantized_and_multiplied_in_float_are_refused_by_name() -> None:
    made = networks.ffn(width=64, hidden=256, gemm=False)
    found = seen(made, static(made))
    assert found.fell_back == ("fc1", "fc2")
    assert found.layers[0].kernels == ("DequantizeLinear", "DequantizeLinear", "Gemm")
    assert found.share == 0
    with pytest.raises(
        ModelError, match=r"2 of 2 layers .* multiplies in float: fc1, fc2\. .* Gemm with a constant bias"
    ):
        coverage.require(found)
    assert kinds(found)[0] == "fell back"


def test_one_layer_that_fell_back_is_told_from_one_that_was_kept() -> None:
    made = networks.ffn(width=64, hidden=256, gemm=False)
    found = seen(made, static(made, "fc1"))
    assert [one.reason for one in found.layers] == [coverage.LEFT, coverage.FELL_BACK]
    assert found.fell_back == ("fc2",)


def test_a_kept_layer_is_left_in_float_and_nothing_is_refused() -> None:
    made = networks.ffn(width=64, hidden=256)
    found = seen(made, static(made, "fc2"))
    assert [(one.kernels, one.integer, one.reason) for one in found.layers] == [
        (("QGemm",), True, ""),
        (("Gemm",), False, coverage.LEFT),
    ]
    assert found.share == 0.5
    coverage.require(found)
    (cause,) = causes.causes(found, batch=64)
    assert cause == causes.Cause("float layers", 1, 0.5, "1 layer, 50.0% of the multiplications, left in float (fc2)")


def test_attention_counts_against_the_share() -> None:
    made = networks.block(width=64, heads=4, length=16)
    found = seen(made, static(made))
    assert [(one.op, one.integer, one.macs) for one in found.others] == [("MatMul", False, 4 * 16 * 16 * 16)] * 2
    layers = 16 * 64 * 64 * (4 + 4 + 4)
    assert found.macs == layers + 2 * 4 * 16 * 16 * 16
    assert found.share == layers / found.macs
    assert kinds(found) == ["attention"]
    assert "2 products, 4.0% of the multiplications, between two activations" in causes.causes(found, batch=64)[0].text


def test_a_model_made_for_one_batch_counts_one_element() -> None:
    free, fixed = networks.block(), networks.block()
    values = networks.ranges(free, list(networks.feeds(free)))
    for value in fixed.model.graph.inputs:
        if value.name == "x":
            value.shape = ir.Shape((8, 16, 64))
    for node in fixed.model.graph:
        shape = node.outputs[0].shape
        if node.name in {"attn.scores", "attn.mixed"} and shape is not None:
            node.outputs[0].shape = ir.Shape((8, *shape[1:]))
    first, second = (seen(made, insert.static(made, Recipe(values))) for made in (free, fixed))
    assert [one.macs for one in first.others] == [one.macs for one in second.others]


@pytest.mark.parametrize("grouped", [False, True])
def test_convolutions_are_found_though_the_runtime_renames_what_they_make(grouped: bool) -> None:
    made = networks.conv(grouped=grouped)
    found = seen(made, static(made))
    assert [one.kernels for one in found.layers] == [("QLinearConv",), ("QLinearConv",), ("QGemm",)]
    assert found.share == 1
    kept = seen(made, static(made, "conv2"))
    assert [one.integer for one in kept.layers] == [True, False, True]
    assert kept.fell_back == ()
    assert kept.layers[1].kernels == ("Conv",)


def test_islands_between_integer_convolutions_are_counted_with_what_is_on_them() -> None:
    made = networks.conv()
    found = causes.causes(seen(made, static(made)), batch=4096)
    assert [(cause.kind, cause.count) for cause in found] == [("float islands", 2)]
    assert "1 Gelu, 1 GlobalAveragePool" in found[0].text
    none = networks.ffn(width=64, hidden=256)
    assert kinds(seen(none, static(none))) == []


def test_tiny_layers_depend_on_the_batch() -> None:
    made = networks.ffn(width=64, hidden=256)  # 16384 multiplications a row and layer
    found = seen(made, static(made))
    assert kinds(found, batch=1) == ["tiny layers"]
    assert kinds(found, batch=4) == []


def test_the_largest_cause_comes_first() -> None:
    made = networks.block()
    model = static(made, "mlp.fc1.gemm", "mlp.fc2.gemm")
    found = causes.causes(seen(made, model), batch=64)
    assert [cause.kind for cause in found] == ["float layers", "attention"]
    assert found[0].share > 0.6
    assert found[0].count == 2


def test_integer_convolutions_of_dynamic_quantization_are_named_as_slow(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    import onnx
    from onnxruntime.quantization import quantize_dynamic

    folder = tmp_path_factory.mktemp("dynamic")
    made = networks.conv()
    ir.save(made.whole(), folder / "float.onnx")
    with quiet():
        quantize_dynamic(folder / "float.onnx", folder / "dynamic.onnx", op_types_to_quantize=["Conv"])
    model: ir.Model = ir.from_proto(onnx.load(folder / "dynamic.onnx"))
    found = seen(made, model)
    assert [one.kernels for one in found.layers[:2]] == [("ConvInteger",)] * 2
    assert "ConvInteger" in kinds(found)


def test_a_weight_only_kernel_that_multiplies_floats_is_not_integer() -> None:
    made = networks.ffn(width=64, hidden=256)
    model = insert.weight_only(made)
    for node in model.graph:
        node.attributes.pop("accuracy_level", None)
    assert seen(made, model).share == 0


def test_float_and_half_models_have_no_integers() -> None:
    made = networks.block()
    for model in (made.whole(), half.half(made)):
        found = seen(made, model)
        assert found.share == 0
        assert {one.kernels for one in found.layers} == {("Gemm",)}
        assert found.fell_back == ()


def test_layers_that_share_a_weight_are_each_found() -> None:
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    w = make.normal("w", 32, 32)
    one = make.op("one", "Gelu", make.op("a", "Gemm", x, w))
    made = networks.network(make.model([x], make.op("b", "Gemm", one, w)))
    assert [layer.kernels for layer in seen(made, static(made)).layers] == [("QGemm",), ("QGemm",)]
    mixed = seen(made, static(made, "a"))
    assert [layer.integer for layer in mixed.layers] == [False, True]


def test_without_shapes_the_share_is_that_of_single_rows() -> None:
    made = networks.ffn(width=64, hidden=256)
    blind = [Layer(**{**vars(layer), "macs": 0}) for layer in made.layers]
    found = coverage.coverage(static(made, "fc2"), blind)
    assert not found.sized
    assert [one.macs for one in found.layers] == [64 * 256, 64 * 256]
    assert found.share == 0.5
    assert "tiny layers" not in kinds(found, batch=1)


def test_with_a_feed_the_work_is_counted_on_its_shapes() -> None:
    """An image of any size: nothing in the file says how often a Conv multiplies."""
    make = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 4, "height", "width"))
    up = make.op("up", "ConvTranspose", x, make.normal("up.weight", 4, 6, 2, 2, scale=0.2), strides=[2, 2])
    down = make.op("down", "Conv", up, make.normal("down.weight", 8, 3, 2, 2, scale=0.2), strides=[2, 2], group=2)
    mean = make.op("flat", "Flatten", make.op("mean", "GlobalAveragePool", make.op("act", "Gelu", down)))
    made = networks.network(make.model([x], make.linear("head", mean, 8, 10)))
    feed = {"x": np.random.default_rng(0).normal(size=(3, 4, 10, 7)).astype(np.float32)}
    model = insert.static(made, Recipe(networks.ranges(made, [feed])))
    for one in (made.whole(), model, insert.dynamic(made), insert.weight_only(made)):
        found = coverage.coverage(one, made.layers, feed)
        assert [(layer.name, layer.macs) for layer in found.layers] == [("down", 8 * 70 * 3 * 4), ("head", 80)]
        assert [(other.op, other.macs, other.reason) for other in found.others] == [
            ("ConvTranspose", 4 * 70 * 6 * 4, coverage.LEFT)
        ]
        assert found.sized
    assert coverage.coverage(model, made.layers, feed).share == pytest.approx(6800 / 13520)


def test_attention_counts_the_same_on_a_feed() -> None:
    made = networks.block()
    model, feed = static(made), next(networks.feeds(made, batch=5))
    stated, counted = (coverage.coverage(model, made.layers, one) for one in (None, feed))
    assert [one.macs for one in stated.layers] == [one.macs for one in counted.layers]
    assert [one.macs for one in stated.others] == [one.macs for one in counted.others]


def test_the_share_of_a_finished_model_needs_no_layers() -> None:
    made = networks.ffn(width=64, hidden=256)
    feed = next(networks.feeds(made))
    for model in (made.whole(), static(made), static(made, "fc2")):
        assert coverage.share(model, feed) == seen(made, model).share
    fell = networks.ffn(width=64, hidden=256, gemm=False)
    assert coverage.share(static(fell), next(networks.feeds(fell))) == 0


@pytest.mark.parametrize("operators", [False, True])
def test_the_share_of_what_another_tool_quantized(tmp_path: Path, operators: bool) -> None:
    """With Q and DQ around every value, outputs too; None where its own operators multiply integers."""
    made = networks.ffn(width=48, hidden=96)
    data = list(networks.feeds(made, batch=16))
    ir.save(made.whole(), tmp_path / "float.onnx")
    with quiet():
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

        class Reader(CalibrationDataReader):  # type: ignore[misc]  # the runtime's tools are untyped
            def __init__(self) -> None:
                self.left = iter(data)

            def get_next(self) -> Any:
                return next(self.left, None)

        form = QuantFormat.QOperator if operators else QuantFormat.QDQ
        quantize_static(tmp_path / "float.onnx", tmp_path / "int8.onnx", Reader(), quant_format=form)
    found = coverage.share(ir.load(tmp_path / "int8.onnx"), data[0])
    assert np.isnan(found) if operators else found == 1.0


def test_what_no_float_model_has() -> None:
    made = networks.ffn(width=64, hidden=256)
    assert coverage.quantized(made.whole()) == set()
    assert coverage.quantized(static(made)) == {"QuantizeLinear", "DequantizeLinear"}
    assert "MatMulNBits" in coverage.quantized(insert.weight_only(made))

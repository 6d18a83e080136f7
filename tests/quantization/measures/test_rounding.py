"""The model with rounded weights alone: against NumPy, between float and INT8, and for files of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from quantize_judging import recipe
from quantize_networks import Builder, answers, block, conv, feeds, ffn, network

from gelu_deploy import gelu, runtime
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.quiet import quiet
from gelu_deploy.quantization.measures.rounding import freed, rounded_weights
from gelu_deploy.quantization.network import Network
from gelu_deploy.scoring.metrics import sqnr


def _file(model: ir.Model, folder: Path) -> Path:
    ir.save(model, folder / "int8.onnx")
    return folder / "int8.onnx"


def _run(file: Path, feed: Arrays) -> Arrays:
    run = rounded_weights(file)
    assert run is not None
    with run:
        return run(feed)


def _rounded(weight: Array, axis: int) -> Array:
    """To 8 bits, symmetric, a scale for each output channel."""
    wide: Array = weight.astype(np.float64)
    scale = np.abs(wide).max(axis=axis, keepdims=True) / 127
    rounded: Array = np.rint(wide / scale) * scale
    return rounded


@pytest.mark.parametrize("weight", ["u8", "s8"])
def test_it_is_what_numpy_makes_of_rounded_weights(weight: Any, tmp_path: Path) -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, batch=16))
    w1, w2 = (_rounded(made.array(f"fc{n}.weight"), 0) for n in (1, 2))
    hidden = data[0]["x"].astype(np.float64) @ w1 + made.array("fc1.bias")
    wanted = gelu.FORMS["erf"].reference(hidden) @ w2 + made.array("fc2.bias")
    got = _run(_file(insert.static(made, recipe(made, data, weight)), tmp_path), data[0])["y"]
    exact = answers(made.whole(), data[0])["y"]
    assert sqnr(exact, got) == pytest.approx(sqnr(exact, wanted), abs=0.1)
    assert sqnr(wanted, got) > sqnr(exact, wanted) + 20


NETWORKS: dict[str, Callable[[], Network]] = {
    "ffn": lambda: ffn(width=48, hidden=96),
    "block": lambda: block(width=32, heads=2),
    "conv": conv,
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_it_lies_between_float_and_int8(kind: str, tmp_path: Path) -> None:
    made = NETWORKS[kind]()
    data = list(feeds(made, batch=16))
    model = insert.static(made, recipe(made, data))
    exact, coarse = answers(made.whole(), data[0])["y" if kind != "conv" else "head"], answers(model, data[0])
    (weights,), (whole,) = _run(_file(model, tmp_path), data[0]).values(), coarse.values()
    assert sqnr(exact, whole) + 1 < sqnr(exact, weights) < 60


def test_rounded_activations_alone_leave_the_float_model(tmp_path: Path) -> None:
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 16))
    scale, zero = make.weight("scale", np.float32(0.1)), make.weight("zero", np.uint8(128))
    back = make.op("dq", "DequantizeLinear", make.op("q", "QuantizeLinear", x, scale, zero), scale, zero)
    model = make.model([x], make.op("y", "Gemm", back, make.normal("w", 16, 4)))
    feed = {"x": make.random.normal(size=(3, 16)).astype(np.float32)}
    wanted = feed["x"] @ model.graph.initializers["w"].const_value.numpy()  # type: ignore[union-attr]
    np.testing.assert_allclose(_run(_file(model, tmp_path), feed)["y"], wanted, rtol=1e-5, atol=1e-6)


def test_what_is_rounded_last_keeps_its_name_as_an_output(tmp_path: Path) -> None:
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 3, 8, 8))
    made = network(make.model([x], make.op("y", "Conv", x, make.normal("w", 8, 3, 3, 3, scale=0.2))))
    data = list(feeds(made, batch=4))
    model = insert.static(made, recipe(made, data))
    file, exact = _file(model, tmp_path), answers(made.whole(), data[0])
    got = _run(file, data[0])
    assert list(got) == list(exact) == ["y"]
    assert sqnr(exact["y"], got["y"]) > sqnr(exact["y"], answers(model, data[0])["y"]) + 1


def test_only_constants_are_dequantized_in_it() -> None:
    made = block(width=32, heads=2)
    model = insert.static(made, recipe(made, list(feeds(made))))
    integers = [node.op_type for node in model.graph].count("QuantizeLinear")
    assert integers > 0
    assert freed(model)
    inputs = [node.inputs[0] for node in model.graph if node.op_type == "DequantizeLinear"]
    assert len(inputs) >= 2 * integers - 1
    assert all(value is not None and value.is_initializer() for value in inputs)
    assert "QuantizeLinear" not in {node.op_type for node in model.graph}


def test_a_file_of_the_runtimes_own_quantizer(tmp_path: Path) -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, batch=16))
    ir.save(made.whole(), tmp_path / "float.onnx")
    with quiet():
        from onnxruntime.quantization import CalibrationDataReader, quantize_static

        class Reader(CalibrationDataReader):  # type: ignore[misc]  # the runtime's tools are untyped
            def __init__(self) -> None:
                self.left: Iterator[Arrays] = iter(data)

            def get_next(self) -> Any:
                return next(self.left, None)

        quantize_static(tmp_path / "float.onnx", tmp_path / "int8.onnx", Reader(), per_channel=True)
    exact = answers(made.whole(), data[0])["y"]
    weights = sqnr(exact, _run(tmp_path / "int8.onnx", data[0])["y"])
    assert sqnr(exact, runtime.evaluate(tmp_path / "int8.onnx", data[0], optimise=True)["y"]) + 1 < weights < 60


def test_where_it_cannot_be_told_apart_there_is_none(tmp_path: Path) -> None:
    made = ffn(width=64, hidden=128)
    kept = frozenset(layer.node for layer in made.layers)
    nothing = insert.static(made, replace(recipe(made, list(feeds(made))), kept=kept))
    for model in (nothing, insert.dynamic(made, "u8"), insert.weight_only(made)):
        before = [node.op_type for node in model.graph]
        assert rounded_weights(_file(model, tmp_path)) is None
        assert not freed(model)
        assert [node.op_type for node in model.graph] == before

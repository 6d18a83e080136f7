"""The report per layer, against NumPy, against models in which one layer alone is quantized, and kernel by kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from quantize_judging import recipe
from quantize_networks import Builder, block, conv, feeds, ffn, network

from gelu_deploy import runtime
from gelu_deploy.graph.taps import PREFIX
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.measures.quality import report
from gelu_deploy.quantization.measures.sidebyside import quantized, side_by_side
from gelu_deploy.quantization.network import Network
from gelu_deploy.scoring.metrics import Energy, sqnr

SMALL: dict[str, Callable[[], Network]] = {
    "ffn": lambda: ffn(width=48, hidden=96),
    "block": lambda: block(width=32, heads=2),
    "conv": conv,
    "grouped": lambda: conv(grouped=True),
}
small = pytest.mark.parametrize("kind", SMALL)


def _plain_conv() -> Network:
    """Two convolutions with nothing between, so that one value is the output of one and the input of the other."""
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 3, 8, 8))
    c1 = make.op("conv1", "Conv", x, make.normal("w1", 8, 3, 3, 3, scale=0.2), make.normal("b1", 8, scale=0.1))
    return network(make.model([x], make.op("conv2", "Conv", c1, make.normal("w2", 4, 8, 3, 3, scale=0.1))))


@small
def test_a_layer_alone_is_the_model_in_which_it_alone_is_quantized(kind: str) -> None:
    made = SMALL[kind]()
    data = list(feeds(made, count=3, batch=8))
    words = recipe(made, data)
    rows = report(made, insert.static(made, words), data)
    assert [row.node for row in rows] == [layer.node for layer in made.layers]
    for row in rows:
        others = frozenset(layer.node for layer in made.layers) - {row.node}
        single = report(made, insert.static(made, replace(words, kept=others)), data)
        assert [one.node for one in single] == [row.node]
        assert single[0].accumulated == pytest.approx(single[0].alone, abs=0.01)
        assert row.alone == pytest.approx(single[0].alone, abs=0.01)


@small
def test_noise_accumulates_and_the_first_layer_has_only_its_own(kind: str) -> None:
    made = SMALL[kind]()
    data = list(feeds(made, batch=8))
    rows = report(made, insert.static(made, recipe(made, data)), data)
    assert rows[0].accumulated == rows[0].alone
    assert rows[-1].accumulated < rows[-1].alone
    assert all(20 < row.accumulated < 60 for row in rows)


def test_alone_is_what_numpy_makes_of_rounded_input_and_weights() -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, batch=16))
    words = recipe(made, data)
    (_, seen), _ = side_by_side(made, insert.static(made, words), data)
    low, high = words.ranges["g"]
    scale = (high - low) / 255
    zero = np.round(-low / scale)
    x = (np.clip(np.round(seen.input / scale) + zero, 0, 255) - zero) * scale
    w = made.array("fc2.weight").astype(np.float64)
    step = np.abs(w).max(axis=0) / 127
    wanted = x @ (np.round(w / step) * step) + 0.01
    assert sqnr(wanted, seen.alone) > 60
    assert sqnr(seen.wanted, wanted) == pytest.approx(sqnr(seen.wanted, seen.alone), abs=0.1)


@small
def test_looking_leaves_the_kernels_as_they_are(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, ran = SMALL[kind](), list[ir.Model]()
    data = list(feeds(made, count=1))
    model = insert.static(made, recipe(made, data))
    opened = runtime.Evaluation

    def opening(graph: ir.Model, *rest: object, optimise: bool) -> runtime.Evaluation:
        ran.append(graph)
        return opened(graph, *rest, optimise=optimise)  # type: ignore[arg-type]

    monkeypatch.setattr(runtime, "Evaluation", opening)
    assert len(list(side_by_side(made, model, data))) == 1
    tapped = next(graph for graph in ran if any(v.name and v.name.startswith(PREFIX) for v in graph.graph.outputs))
    islands = next(graph for graph in ran if graph.graph.name == "islands")
    plain = _integer(model)
    assert plain.total() == len(made.layers)
    assert _integer(tapped) == _integer(islands) == plain


def _integer(model: ir.Model) -> Counter[str]:
    """Kernels of layers, by operator."""
    names = {"QGemm", "QLinearConv", "Gemm", "Conv", "QLinearMatMul", "MatMulIntegerToFloat"}
    return Counter(node.op_type for node in runtime.optimised(model).graph if node.op_type in names)


def test_a_value_between_two_layers_stays_each_ones_own() -> None:
    made = _plain_conv()
    data = list(feeds(made, batch=8))
    rows = report(made, insert.static(made, recipe(made, data)), data)
    assert rows[0].alone == rows[0].accumulated < 50
    assert rows[1].accumulated < rows[1].alone < np.inf


def test_codes_below_zero_and_what_they_keep_of_the_lobe() -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, count=3, batch=16))
    words = recipe(made, data)
    fc1, fc2 = report(made, insert.static(made, words), data)
    assert (fc1.codes_below_zero, fc1.lobe) == (None, None)
    low, high = words.ranges["g"]
    step = (high - low) / 255
    assert fc2.codes_below_zero == round(0.17 / step) > 3
    energy = Energy()
    for batch in side_by_side(made, insert.static(made, words), data):
        below = batch[1].input[batch[1].input < 0]
        energy.add(below, np.round(below / step) * step)
    assert fc2.lobe == pytest.approx(energy.db, abs=0.05)


def test_signed_activations_have_the_same_codes() -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, batch=16))
    words = recipe(made, data)
    unsigned, signed = (
        report(made, insert.static(made, one), data)[1] for one in (words, replace(words, activation="s8", weight="s8"))
    )
    assert signed.codes_below_zero == unsigned.codes_below_zero
    assert signed.lobe == pytest.approx(unsigned.lobe, abs=0.5)


def test_batches_of_any_size_add_up() -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, count=1, batch=12))
    model = insert.static(made, recipe(made, data))
    pieces = [{"x": array} for array in np.split(data[0]["x"], [1, 5])]
    for row, one in zip(report(made, model, pieces), report(made, model, data), strict=True):
        assert _numbers(row) == pytest.approx(_numbers(one), abs=0.01)


def _numbers(row: object) -> list[float]:
    return [number for number in vars(row).values() if isinstance(number, float)]


def test_layers_that_stay_float_have_no_row_and_other_precisions_have() -> None:
    made = ffn(width=64, hidden=128)
    data = list(feeds(made, batch=8))
    kept = replace(recipe(made, data), kept=frozenset({"fc2"}))
    assert [row.module for row in report(made, insert.static(made, kept), data)] == ["fc1"]
    assert report(made, made.whole(), data) == []
    for model in (insert.dynamic(made, "u8"), insert.weight_only(made)):
        assert [layer.node for layer in quantized(made, model)] == ["fc1", "fc2"]
        rows = report(made, model, data)
        assert all(30 < row.alone < 60 and row.codes_below_zero is None for row in rows)


def test_a_broken_layer_is_the_worst() -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, batch=8))
    model = insert.static(made, recipe(made, data))
    data[0]["x"][0, 0] = np.nan
    fc1, _ = report(made, model, data)
    assert fc1.accumulated == -np.inf

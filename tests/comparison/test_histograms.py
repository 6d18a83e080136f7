"""Histograms against NumPy's, and grids against the file's integers and the report of ``quantize``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import ready_networks
from graphs import Expression, erf, model, op
from quantize_judging import recipe
from quantize_networks import Builder, conv, feeds, ffn, network

from gelu_deploy import gelu
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.comparison.histograms import BINS, LOBE, histograms
from gelu_deploy.data import Batch
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.scaling import narrowed, split
from gelu_deploy.quantization.measures.quality import report
from gelu_deploy.quantization.network import Network
from gelu_deploy.quantization.network.prepare import prepared
from gelu_deploy.results import SiteHistogram
from gelu_deploy.scoring.metrics import sqnr


def _file(made: ir.Model, folder: Path, name: str = "float") -> Path:
    ir.save(made, folder / f"{name}.onnx")
    return folder / f"{name}.onnx"


def _drawn(made: ir.Model, integer: ir.Model | None, data: Iterable[Arrays], folder: Path) -> list[SiteHistogram]:
    whole = None if integer is None else _file(integer, folder, "int8")
    return histograms("model", _file(made, folder), whole, map(Batch, data))


def _one(formula: Callable[[Expression], Expression], folder: Path, *batches: Array) -> SiteHistogram:
    made = model(formula, shape=("n", batches[0].shape[-1]))
    (site,) = _drawn(made, None, ({"x": batch} for batch in batches), folder)
    return site


def _gelu(x: Expression) -> Expression:
    return op("Gelu", x)


def _exact(x: Array) -> Array:
    exact: Array = gelu.FORMS["erf"].reference(x.astype(np.float64)).astype(np.float32)
    return exact


def _near(found: Any, values: Array, bins: int) -> None:
    """As NumPy counts them, but for what lies within 0.4 % of an edge."""
    counts, edges = np.histogram(values, bins)
    assert found["edges"] == pytest.approx(edges, rel=1e-6, abs=1e-7)
    assert (len(found["counts"]), sum(found["counts"])) == (bins, values.size)
    inner = edges[1:-1]
    slack = [np.count_nonzero(np.abs(values - edge) <= 0.008 * abs(edge)) for edge in inner]
    assert (np.abs(np.cumsum(found["counts"] - counts)[:-1]) <= np.array(slack) + 1).all()
    assert np.abs(found["counts"] - counts).sum() < 0.05 * values.size


def test_counts_are_numpys(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(-0.5, 1.5, (2000, 20)).clip(-4).astype(np.float32)
    site, y = _one(_gelu, tmp_path, x), _exact(x)
    _near(site["output"], y, BINS)
    below = np.append(y[y < 0], np.float32(0))
    counted = site["lobe"] | {"counts": [*site["lobe"]["counts"][:-1], site["lobe"]["counts"][-1] + 1]}
    _near(counted, below, LOBE)
    assert site["lobe"]["edges"][-1] == 0
    assert (site["family"], site["activation"], site["grid"], site["codes_below_zero"]) == ("model", "erf", None, 0)
    assert math.isnan(site["lobe_sqnr"])
    assert site["negative"] == np.mean(y < 0)
    assert site["effective"] == np.mean(np.abs(y) > 0.01)
    assert json.loads(json.dumps(site))["output"] == site["output"]


def test_batches_of_any_size_give_the_same(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(100, 6)).astype(np.float32)
    whole, parts = _one(_gelu, tmp_path, x), _one(_gelu, tmp_path, *np.split(x, [1, 20, 50]))
    assert (whole["output"], whole["lobe"]) == (parts["output"], parts["lobe"])


def test_a_relu_has_no_lobe_and_zeros_of_either_sign_are_not_below_zero(tmp_path: Path) -> None:
    x = np.array([[-3, -30, 0, 1, 64]], np.float32)
    site = _one(lambda e: op("Relu", e), tmp_path, x)
    assert site["lobe"] == {"edges": [0.0], "counts": []}
    assert site["output"]["counts"][:2] == [3, 1]
    assert (site["output"]["edges"][0], site["output"]["edges"][-1]) == (0, 64)
    far = _one(_gelu, tmp_path, np.array([[-30, -20, 0, 64]], np.float32))
    assert far["lobe"]["counts"] == []
    assert far["output"]["counts"] == [3, *[0] * (BINS - 2), 1]


def test_one_value_and_none(tmp_path: Path) -> None:
    site = _one(_gelu, tmp_path, np.full((3, 2), -1, np.float32))
    assert sum(site["output"]["counts"]) == sum(site["lobe"]["counts"]) == 6
    assert site["lobe"]["edges"][0] == pytest.approx(-0.158655, abs=1e-6)
    nothing = _one(_gelu, tmp_path, np.full((3, 2), np.nan, np.float32))
    assert nothing["output"] == nothing["lobe"] == {"edges": [0.0], "counts": []}


def test_a_model_without_any_is_not_run(tmp_path: Path) -> None:
    def none() -> Iterator[Arrays]:
        raise AssertionError
        yield {}

    assert _drawn(model(lambda x: x + 1), None, none(), tmp_path) == []
    assert _drawn(model(_gelu, place="if"), None, none(), tmp_path) == []


NETWORKS: dict[str, Callable[[], Network]] = {"ffn": lambda: ffn(width=48, hidden=96), "conv": conv}


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("activation", ["u8", "s8"])
def test_the_grid_is_the_files_and_the_lobe_that_of_quantize(kind: str, activation: Any, tmp_path: Path) -> None:
    made = NETWORKS[kind]()
    data = list(feeds(made, count=3, batch=16))
    words = replace(recipe(made, data, activation), activation=activation)
    integer = insert.static(made, words)
    (site,) = _drawn(made.whole(), integer, data, tmp_path)
    row = next(row for row in report(made, integer, data) if row.codes_below_zero is not None)
    name = made.layers[1].input
    low, high = words.ranges[name]
    shift = 128 if activation == "s8" else 0
    assert site["module"] == "act"
    assert site["grid"] == {
        "scale": pytest.approx((high - low) / 255, rel=1e-6),
        "zero": round(-low / (high - low) * 255) - shift,
        "lowest": -shift,
        "highest": 255 - shift,
    }
    assert site["codes_below_zero"] == row.codes_below_zero
    assert site["lobe_sqnr"] == pytest.approx(row.lobe, abs=0.02)
    assert site["output"]["edges"][0] == pytest.approx(low)
    assert site["output"]["edges"][-1] == pytest.approx(high)


@pytest.mark.parametrize("narrow", [1.0, 0.05])
def test_the_lobe_through_a_grid_finer_than_the_counting(narrow: float, tmp_path: Path) -> None:
    x = np.random.default_rng(2).normal(-0.7, 0.3, (500, 40)).astype(np.float32)
    scale = np.float32(0.01 * narrow)
    site = _read_by(tmp_path, x, _quantizer(scale, np.uint8(200)))
    below = _exact(x)[x < 0]
    assert site["lobe_sqnr"] == pytest.approx(sqnr(below, np.clip(np.rint(below / scale), -200, 55) * scale), abs=0.05)


def test_a_layer_in_float_has_no_grid_nor_has_one_quantized_as_it_comes(tmp_path: Path) -> None:
    made = ffn(width=64, hidden=128)
    data = list(feeds(made))
    words = replace(recipe(made, data), kept=frozenset({"fc2"}))
    for integer in (insert.static(made, words), insert.dynamic(made, "u8"), insert.weight_only(made)):
        (site,) = _drawn(made.whole(), integer, data, tmp_path)
        assert (site["grid"], site["codes_below_zero"]) == (None, 0)
        assert math.isnan(site["lobe_sqnr"])


def test_a_value_that_is_made_in_two_dimensions_is_found(tmp_path: Path) -> None:
    file = ready_networks.saved(model(ready_networks.block, shape=("n", 5, 8)), tmp_path)
    made = prepared(file)
    data = list(feeds(made, batch=64))
    integer = insert.static(made, recipe(made, data))
    (site,) = histograms("model", Path(file), _file(integer, tmp_path, "int8"), map(Batch, data))
    (row,) = [row for row in report(made, integer, data) if row.codes_below_zero is not None]
    assert site["codes_below_zero"] == row.codes_below_zero
    assert site["lobe_sqnr"] == pytest.approx(row.lobe, abs=0.05)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_factor_in_front_is_divided_out_whether_the_file_keeps_it_or_not(keeps: bool, tmp_path: Path) -> None:
    def doubled(x: Expression) -> Expression:
        hidden = ready_networks.linear(x, ready_networks.W, ready_networks.B)
        return ready_networks.linear(hidden * (1 + erf(hidden / ready_networks.ROOT2)), ready_networks.V, 0.5)

    file = ready_networks.saved(model(doubled, shape=("n", 8)), tmp_path)
    made = network(ir.load(file)) if keeps else prepared(file)
    data = list(feeds(made, batch=64))
    words = recipe(made, data)
    (site,) = histograms("model", Path(file), _file(insert.static(made, words), tmp_path, "int8"), map(Batch, data))
    low, high = words.ranges[made.layers[1].input]
    assert low == pytest.approx(-0.34 if keeps else -0.17, abs=0.001)
    assert site["grid"] is not None
    assert site["grid"]["scale"] == pytest.approx((high - low) / 255 / (2 if keeps else 1), rel=1e-5)
    assert site["output"]["edges"][0] == pytest.approx(-0.17, abs=0.001)
    assert site["codes_below_zero"] == round(-low / (high - low) * 255)
    assert 25 < site["lobe_sqnr"] < 45


def test_a_guard_that_scales_channels_leaves_no_grid_and_one_that_splits_them_that_of_the_others(
    tmp_path: Path,
) -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, batch=16))
    channels = np.exp2(np.random.default_rng(3).uniform(-6, 6, 96)).astype(np.float32)
    scaled = narrowed(made, made.layers[1], channels, 1.0)
    assert scaled is not None
    apart = split(made, made.layers[1], np.array([3, 40]))
    sites = [_drawn(made.whole(), insert.static(n, recipe(n, data)), data, tmp_path)[0] for n in (scaled, apart)]
    assert [site["grid"] is None for site in sites] == [True, False]
    low, high = recipe(apart, data).ranges[apart.layers[1].input]
    assert sites[1]["grid"] is not None
    assert sites[1]["grid"]["scale"] == pytest.approx((high - low) / 255, rel=1e-6)


Quantizer = Callable[[Builder, ir.Value], ir.Value]


def _quantizer(scale: Any, zero: Any, name: str = "q") -> Quantizer:
    def write(make: Builder, value: ir.Value) -> ir.Value:
        constants = [
            make.weight(f"{name}.scale", scale),
            *([] if zero is None else [make.weight(f"{name}.zero", zero)]),
        ]
        coarse = make.op(name, "QuantizeLinear", value, *constants)
        return make.op(f"{name}.back", "DequantizeLinear", coarse, *constants)

    return write


def _read_by(folder: Path, x: Array, *quantizers: Quantizer) -> SiteHistogram:
    def written(*readers: Quantizer) -> ir.Model:
        make = Builder()
        entry = ir.val("x", ir.DataType.FLOAT, ("n", x.shape[-1]))
        act = make.op("act", "Gelu", entry)
        return make.model([entry], *([reader(make, act) for reader in readers] or [act]), opset=21)

    (site,) = _drawn(written(), written(*quantizers), [{"x": x}], folder)
    return site


F, U, S, W = np.float32, np.uint8, np.int8, np.uint16


@pytest.mark.parametrize(
    ("quantizers", "grid"),
    [
        ([(F(0.1), U(7))], (0.1, 7, 0, 255)),
        ([(F(0.1), S(-7))], (0.1, -7, -128, 127)),
        ([(F(0.1), W(7))], (0.1, 7, 0, 65535)),
        ([(np.full(1, F(0.1)), np.full(1, U(7)))], (0.1, 7, 0, 255)),
        ([(F(0.1), U(7)), (F(0.1), U(7))], (0.1, 7, 0, 255)),
        ([(F(0.1), U(7)), (F(0.2), U(7))], None),
        ([(F(0.1), U(7)), (np.full(4, F(0.1)), np.full(4, U(7)))], None),
        ([(F(0.1), None)], None),
    ],
)
def test_every_way_in_which_a_file_may_read_an_output(
    quantizers: list[tuple[Any, Any]], grid: tuple[float, int, int, int] | None, tmp_path: Path
) -> None:
    readers = [_quantizer(*one, f"q{place}") for place, one in enumerate(quantizers)]
    site = _read_by(tmp_path, np.linspace(-3, 3, 40, dtype=F).reshape(-1, 4), *readers)
    if grid is None:
        assert (site["grid"], site["codes_below_zero"]) == (None, 0)
        return
    scale, zero, lowest, highest = grid
    wanted = {"scale": pytest.approx(scale), "zero": zero, "lowest": lowest, "highest": highest}
    assert site["grid"] == wanted
    assert site["codes_below_zero"] == zero - lowest

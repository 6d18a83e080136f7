"""Ranges: 0 included, the floor of a GELU never clipped, clipping where it pays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gelu_deploy.arrays import Array
from gelu_deploy.gelu import FORMS
from gelu_deploy.quantization.calibration import METHODS, Method, Observation, ranges
from gelu_deploy.quantization.network import Range


def method(name: Method, values: Array) -> Range:
    return ranges({"v": Observation.of(values)}, name)["v"]


def gelu(x: Array) -> Array:
    return np.asarray(FORMS["erf"].reference(x), np.float32)


def quantized(values: Array, found: Range) -> Array:
    step = (found[1] - found[0]) / 255 or 1.0
    zero = np.round(-found[0] / step)
    result: Array = (np.clip(np.round(values / step) + zero, 0, 255) - zero) * step
    return result


def sqnr(values: Array, found: Range) -> float:
    return float(10 * np.log10((values**2).sum() / ((values - quantized(values, found)) ** 2).sum()))


def normal(seed: int = 0, size: int = 200_000) -> Array:
    return np.random.default_rng(seed).normal(size=size)


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=60, deadline=None)
@given(
    values=arrays(np.float32, st.integers(1, 40), elements=st.floats(-(2.0**60), 2.0**60, allow_nan=False, width=32))
)
def test_a_range_holds_0_and_lies_within_what_was_seen(name: Method, values: Array) -> None:
    low, high = method(name, values)
    assert min(0.0, float(values.min())) <= low <= 0 <= high <= max(0.0, float(values.max()))


@pytest.mark.parametrize("name", METHODS)
def test_the_floor_of_a_gelu_is_never_clipped(name: Method) -> None:
    values = gelu(normal())
    low, high = method(name, values)
    assert low == values.min()
    assert 3 < high <= values.max()


@pytest.mark.parametrize(("name", "gain"), [("percentile", 0.3), ("mse", 0.5), ("entropy", -0.2)])
def test_clipping_pays_on_long_tails(name: Method, gain: float) -> None:
    for values in (normal(), gelu(normal())):
        found, widest = method(name, values), method("minmax", values)
        assert found[1] < 0.96 * widest[1]
        assert sqnr(values, found) > sqnr(values, widest) + gain


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_mse_finds_the_best_clip_there_is(scale: float) -> None:
    values = np.concatenate([normal(size=50_000), [12.0]]) * scale
    found = method("mse", values)
    best = max(
        sqnr(values, (low * scale, high * scale)) for low in np.arange(-5, -3, 0.2) for high in np.arange(3, 6, 0.2)
    )
    assert sqnr(values, found) > best - 0.05


def test_mse_keeps_what_outliers_carry() -> None:
    values = np.concatenate([normal(), np.full(500, 30.0)])
    assert method("mse", values)[1] > 28


def test_mse_moves_either_end_alone() -> None:
    values = np.concatenate([normal(size=100_000), np.full(5000, -40.0), [20.0]])
    low, high = method("mse", values)
    assert low < -39
    assert 8 < high < 15


def test_entropy_keeps_a_flat_range_whole() -> None:
    values = np.random.default_rng(0).uniform(0, 6, 100_000)
    assert method("entropy", values)[1] == pytest.approx(6, abs=0.05)


def test_percentile_is_that_of_the_magnitudes() -> None:
    values = normal(size=1_000_000)
    edge = float(np.quantile(np.abs(values), 0.9999))
    assert method("percentile", values) == pytest.approx((-edge, edge), rel=1e-3)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("constant", [0.0, 2.5, -2.5])
def test_constants(name: Method, constant: float) -> None:
    low, high = method(name, np.full(50, constant, np.float32))
    assert (low, high) == pytest.approx((min(0.0, constant), max(0.0, constant)), abs=1e-6)

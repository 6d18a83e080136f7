"""Counts in bins that widen: exact, whatever the order and the pieces."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gelu_deploy.arrays import Array
from gelu_deploy.quantization.calibration.histogram import BINS, NARROWEST, Histogram

FLOATS = st.floats(-(2.0**100), 2.0**100, allow_nan=False, width=32)


def same(one: Histogram, two: Histogram) -> bool:
    return (one.exponent, one.first) == (two.exponent, two.first) and np.array_equal(one.counts, two.counts)


def by_hand(values: Array, exponent: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for value in values.tolist():
        place = math.floor(math.ldexp(value, -exponent))
        found[place] = found.get(place, 0) + 1
    return found


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(FLOATS, min_size=1, max_size=9), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_pieces_in_any_order_are_the_whole(pieces: list[list[float]], random: object) -> None:
    parts = [np.asarray(piece, np.float32) for piece in pieces]
    whole = Histogram.of(np.concatenate(parts))
    random.shuffle(parts)  # type: ignore[attr-defined]
    merged = Histogram.of(parts[0])
    for part in parts[1:]:
        merged = merged.merged(Histogram.of(part))
    assert same(merged, whole)
    counted = {whole.first + place: int(n) for place, n in enumerate(whole.counts) if n}
    assert counted == by_hand(np.concatenate(parts), whole.exponent)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bins_are_fine_and_few(dtype: type) -> None:
    values: Array = np.random.default_rng(0).normal(size=(40, 100)).astype(dtype)
    made = Histogram.of(values)
    span = max(float(values.max()), 0) - min(float(values.min()), 0)
    assert made.counts.sum() == values.size
    assert BINS / 2 - 2 <= span / 2.0**made.exponent <= BINS
    assert made.counts.size <= BINS


def test_more_values_than_one_chunk() -> None:
    values = np.random.default_rng(0).normal(size=(3, 1 << 19)).astype(np.float32)
    values[2] *= 100
    made = Histogram.of(values)
    parts = Histogram.of(values[2]).merged(Histogram.of(values[0])).merged(Histogram.of(values[1]))
    assert made.counts.sum() == values.size
    assert same(made, parts)


def test_zeros_first_do_not_coarsen_what_follows() -> None:
    small = np.linspace(-1e-6, 1e-6, 1000, dtype=np.float32)
    made = Histogram.of(np.zeros(5, np.float32))
    assert made.exponent == NARROWEST
    assert made.merged(Histogram.of(small)).exponent == Histogram.of(small).exponent
    assert made.merged(Histogram.of(small)).counts.sum() == 1005


def test_far_from_zero_the_bins_still_reach_it() -> None:
    made = Histogram.of(np.asarray([1000.0, 1000.001]))
    assert made.counts.sum() == 2
    assert made.end <= BINS


@pytest.mark.parametrize("shift", [-3.0, -0.3, 0.0, 0.3, 3.0])
def test_magnitudes_are_those_of_the_values(shift: float) -> None:
    values = np.random.default_rng(1).normal(shift, 0.5, 3000)
    folded = Histogram.of(values).magnitudes()
    assert folded.first == 0
    counted = {place: int(n) for place, n in enumerate(folded.counts) if n}
    assert counted == by_hand(np.abs(values), folded.exponent)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999, 0.9999, 1.0])
def test_quantiles_are_right_to_a_bin(share: float) -> None:
    values = np.random.default_rng(2).normal(0.2, 3, 50_000)
    made = Histogram.of(values)
    exact = float(np.quantile(values, share, method="inverted_cdf"))
    assert abs(made.quantile(share) - exact) <= 2.0**made.exponent

"""Axes: where numbers stand and which ticks there are."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gelu_deploy.report import scales

NUMBERS = st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-9)


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.sampled_from([math.inf, 3.0]))
def test_values_are_inside_in_their_order_and_ticks_are_few(values: list[float], spread: float) -> None:
    scale = scales.around(values, spread=spread)
    places = [scale.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= 1
    ticks = scale.ticks(6)
    assert 1 <= len(ticks) <= 6
    assert all(before < after for before, after in pairwise(ticks))
    assert all(scale.low - 1e-6 * abs(scale.low) <= tick <= scale.high + 1e-6 * abs(scale.high) for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.9523, 0.9912, [0.96, 0.97, 0.98, 0.99]),
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-0.17, 0.01, [-0.15, -0.1, -0.05, 0.0]),
    ],
)
def test_linear_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert scales.linear_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.17, 2.4, [0.2, 0.5, 1.0, 2.0]),
        (0.17, 24.0, [0.3, 1.0, 3.0, 10.0]),
        (1.0, 1e8, [1.0, 1e2, 1e4, 1e6, 1e8]),
        (2.1, 4.9, [2.5, 3.0, 3.5, 4.0, 4.5]),
    ],
)
def test_logarithmic_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert scales.log_ticks(low, high) == pytest.approx(ticks)


def test_a_logarithmic_axis_is_for_a_wide_spread_only() -> None:
    assert not scales.around([1.0, 2.9], spread=3.0).logarithmic
    wide = scales.around([1.0, 100.0], spread=3.0)
    assert wide.logarithmic
    assert wide.at(10.0) == pytest.approx(0.5)


def test_digits_tell_ticks_apart() -> None:
    assert [scales.decimals(ticks) for ticks in ([0.96, 0.97], [0.0, 0.5], [1.0, 2.0], [0.0, 50.0], [3.0])] == [
        2,
        1,
        0,
        0,
        0,
    ]

"""How far a form is from GELU itself, as mathematics: everything in float64, no operator rounded.

Every form here is GELU with another gate in the place of Φ, and Φ(−x) = 1 − Φ(x) holds for all of them, so that the
distance is the same at x and −x. It knows nothing of types, spellings or graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from gelu_deploy.gelu import Form
from gelu_deploy.gelu.exact import SQRT2, Float64, erf_form

Function = Callable[[Float64], Float64]

REACH = 12.0
"""Beyond it every form is 0 or x, within 1e-7."""
TAIL = -6.0
"""Where the left tail begins that relative errors are told for."""
POINTS = 24_001
WINDOW = 4.0
"""Root mean squares are of [−4, 4], as in I-BERT (ICML 2021), table 1."""
SPREAD, FLOOR, TOP = 1.5, -0.17, 6.0
"""Inputs of a GELU that is quantized to 8 bits: normal with this deviation; the range of its output."""


class Peak(NamedTuple):
    """The largest value of a function, and where it is attained."""

    value: float
    at: float


def peak(function: Function, low: float, high: float) -> Peak:
    """The largest value on [low, high]: on a dense grid, then on ever denser ones around the best point so far.

    Args:
        function: x -> f(x) in float64; smooth, or with kinks, but no narrower than a ten-thousandth of the range.
        low: Where to begin.
        high: Where to end.
    """
    at = np.linspace(low, high, POINTS)
    while True:
        values = function(at)
        best = int(np.argmax(values))
        left, right = at[max(best - 1, 0)], at[min(best + 1, len(at) - 1)]
        if right - left < 1e-9 * (high - low):
            return Peak(float(values[best]), float(at[best]))
        at = np.linspace(left, right, 65)


def absolute(form: Form) -> Peak:
    """Largest |form − GELU| over all x, at x ≥ 0."""
    return peak(lambda x: np.abs(form.reference(x) - erf_form(x)), 0.0, REACH)


def in_erf(form: Form) -> Peak:
    """Largest error in the erf that the gate stands for, erf(z) = 2·form(x)/x − 1 with z = x/√2, at z > 0."""

    def distance(z: Float64) -> Float64:
        x = z * SQRT2
        return np.asarray(2 * np.abs(form.reference(x) - erf_form(x)) / x)

    return peak(distance, 1e-6, REACH / SQRT2)


def relative(form: Form, low: float, high: float) -> Peak:
    """Largest |form − GELU| / |GELU| on [low, high], which leaves 0 out."""

    def distance(x: Float64) -> Float64:
        exact = erf_form(x)
        return np.asarray(np.abs((form.reference(x) - exact) / exact))

    return peak(distance, low, high)


def rms(form: Form) -> float:
    """Root of the mean square of form − GELU on [−4, 4]."""
    x, exact = _grid(WINDOW)
    return float(np.sqrt(np.mean((form.reference(x) - exact) ** 2)))


def codes_changed(form: Form, top: float = TOP) -> float:
    """Share of the 8-bit codes of the output that are not GELU's, for x ~ N(0, 1.5) and the range [−0.17, top]."""
    x, exact = _grid(6 * SPREAD)
    weight = np.exp(-0.5 * (x / SPREAD) ** 2)
    differ = _codes(form.reference(x), top) != _codes(exact, top)
    return float(weight[differ].sum() / weight.sum())


def _codes(y: Float64, top: float) -> Float64:
    scale = (top - FLOOR) / 255
    return np.asarray(np.clip(np.rint(y / scale) + np.rint(-FLOOR / scale), 0, 255))


@cache
def _grid(reach: float) -> tuple[Float64, Float64]:
    """Points from −reach to reach, and GELU there."""
    x = np.linspace(-reach, reach, 200_001)
    return x, erf_form(x)

"""Is this function of one variable a GELU: in which form, how much of it, how far off?

It knows numbers only: no nodes, no graphs. Each function is judged once, however often its spelling occurs in a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from gelu_deploy import gelu
from gelu_deploy.parity import tolerance

Float64 = NDArray[np.float64]
Function = Callable[[Float64], Float64]

GRID: Float64 = np.concatenate([np.linspace(-6, 6, 241), [-40.0, -12.0, 12.0, 40.0]])
FUNCTIONS = gelu.functions()
KNOWN: Float64 = np.stack([function(GRID) for _, _, function in FUNCTIONS])
FAR = float(GRID[-1])
"""Where every form is x itself: what a function is there, over x, is its scale."""

NEAR = 0.05
"""A function nearer than this to a form is worth a line in the report."""


@dataclass(frozen=True)
class Verdict:
    """What a function of x is nearest to: ``scale · form(x)``, off by at most ``error`` on the grids.

    Attributes:
        form: Name in ``gelu.FORMS``.
        alpha: Slope, for the sigmoid form.
        scale: Factor in front.
        error: Largest distance, over ``scale``; where x is large, over ``|x|`` too.
        accepted: Whether ``error`` is within the tolerance for its type.
        reason: Why not.
        limit: Its value at −inf: NaN, or the 0 that it should be.
    """

    form: str
    alpha: float | None
    scale: float
    error: float
    accepted: bool
    reason: str = ""
    limit: float = np.nan


def judge(function: Function, dtype: str, *, accept_error: float = 0.0) -> Verdict | None:
    """The verdict on ``function``, or None if it is like no form.

    Args:
        function: x -> f(x) in float64.
        dtype: Type of the constants in it, which decides what rounding may have done to them.
        accept_error: Distance that is accepted although the table of tolerances would not.
    """
    seen = function(GRID)
    scale = _scale(seen)
    if scale is None:
        return None
    with np.errstate(invalid="ignore"):
        errors = np.abs(seen / scale - KNOWN).max(axis=1)
    best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
    form, alpha, _ = FUNCTIONS[best]
    error, allowed = float(errors[best]), max(tolerance(dtype).form, accept_error)
    if error <= allowed:
        dense = _dense(dtype)
        error = max(error, _distance(function(dense) / scale, _known(best, dtype), dense))
    limit = float(function(np.array([-np.inf]))[0])
    if error <= allowed and np.isnan(function(np.array([np.nan]))[0]):
        return Verdict(form, alpha, scale, error, accepted=True, limit=limit)
    slope = _slope(seen / scale)
    if slope is not None:
        return Verdict("sigmoid", slope, scale, error, False, f"x·σ({slope:.6g}·x); the form has α = {gelu.ALPHA}")
    if error <= NEAR:
        return Verdict(form, alpha, scale, error, False, f"GELU-like, off by {error:.1e}")
    return None


def _scale(seen: Float64) -> float | None:
    """f(x)/x far out on the right, if f has died out on the left and is 0 at 0."""
    scale = float(seen[-1]) / FAR
    if not np.isfinite(seen).all() or abs(scale) < 1e-6 or abs(seen[np.argmin(np.abs(GRID))]) > 1e-3 * abs(scale):
        return None
    scale = round(scale) if abs(scale - round(scale)) < 1e-5 * abs(scale) and round(scale) else scale
    return scale if abs(float(seen[-4])) < NEAR * abs(scale) else None


def _slope(seen: Float64) -> float | None:
    """α if the function is x·σ(αx) for any α; None otherwise."""
    at_one = float(seen[np.argmin(np.abs(GRID - 1))])
    if not 0.5 < at_one < 1:
        return None
    alpha = float(np.log(at_one / (1 - at_one)))
    with np.errstate(invalid="ignore"):
        same = np.abs(gelu.sigmoid_form(GRID, alpha) - seen).max() < 1e-5
    return alpha if same else None


@cache
def _dense(dtype: str) -> Float64:
    """The second grid: dense, with extremes and subnormals; for a 16-bit type every finite value that it has."""
    if dtype in {"float16", "bfloat16"}:
        kind = np.dtype(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
        every = np.arange(1 << 16, dtype=np.uint16).view(kind)
        with np.errstate(invalid="ignore"):  # conversion of a signalling NaN
            wide = every.astype(np.float64)
        return wide[np.isfinite(wide)]
    tails = np.geomspace(12, 1e30, 61)
    tiny = np.geomspace(1e-45, 1e-3, 43)
    return np.concatenate([-tails[::-1], np.linspace(-12, 12, 4801), tails, -tiny, tiny, [0.0, -0.0]])


@cache
def _known(index: int, dtype: str) -> Float64:
    """One of ``FUNCTIONS`` on the second grid."""
    return np.asarray(FUNCTIONS[index][2](_dense(dtype)))


def _distance(seen: Float64, known: Float64, at: Float64) -> float:
    """Largest distance, relative to ``|x|`` where that is over 40; inf where one of the two is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(seen - known) / np.maximum(1.0, np.abs(at) / FAR)
    return float(np.max(np.where(np.isnan(gap), np.inf, gap)))

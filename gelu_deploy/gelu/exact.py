"""GELU itself and its derivative in float64, to the last few bits: x·Φ(x) and Φ(x) + x·φ(x).

Each rounding that e^(−x²/2) would magnify is caught and put back (Dekker 1971: the product of two numbers as a sum of
two), so that the left tail has its relative accuracy too. It needs only numpy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64 = NDArray[np.float64]

SQRT2 = math.sqrt(2)
HALF_ROOT = (0.7071067811865476, -4.833646656726457e-17)
"""1/√2 as a sum of two numbers."""
DENSITY = (0.3989422804014327, -2.49232720227773e-17)
"""1/√(2π), likewise."""
ROOT = (-0.7517915246935645, 1.4956759177009883e-17)
"""Where the derivative is zero, likewise: GELU's minimum."""
AROUND_ROOT = (-1.15, -0.4)
"""Where Φ(x) and x·φ(x) cancel."""
FAR = 40.0
"""Beyond ±40 Φ is 0 or 1 and φ is 0, in float64."""

_erfc = np.frompyfunc(math.erfc, 1, 1)
_nodes, _weights = np.polynomial.legendre.leggauss(12)


def cdf(x: ArrayLike) -> Float64:
    """Φ(x) of the standard normal distribution, through erfc, so that the left tail keeps its relative accuracy."""
    z, lost = _product(-_held(x), HALF_ROOT)
    return np.asarray(0.5 * erfc(z) - lost * np.exp(-z * z) / math.sqrt(math.pi))


def erf_form(x: ArrayLike) -> Float64:
    """GELU itself: x·Φ(x) (Hendrycks & Gimpel 2016, equation 1)."""
    x = np.asarray(x, np.float64)
    return gated(x, cdf(x))


def erf_gradient(x: ArrayLike) -> Float64:
    """Φ(x) + x·φ(x), within four units in the last place wherever it is a normal number."""
    held = _held(x)
    z, lost = _product(-held, HALF_ROOT)
    scaled, lost_scaled = _product(held, DENSITY)
    square, lost_square = _product(held, (held, 0.0))
    decayed = np.exp(-0.5 * square)
    put_back = lost_scaled - 0.5 * scaled * lost_square - lost / math.sqrt(math.pi)
    slope = np.asarray((0.5 * erfc(z) + scaled * decayed) + decayed * put_back)
    near = (held > AROUND_ROOT[0]) & (held < AROUND_ROOT[1])
    slope[near] = _around_root(held[near])
    return slope


def gated(x: Float64, gate: Float64) -> Float64:
    """x · gate, with the limit 0 where the gate has closed on −inf (plain multiplication gives NaN there)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isneginf(x), 0.0, x * gate))


def erfc(z: ArrayLike) -> Float64:
    """The complementary error function of the C library, element by element."""
    return np.asarray(_erfc(z), np.float64)


def _around_root(x: Float64) -> Float64:
    """The derivative as the integral of its own, φ(t)(2 − t²), from the root: no cancellation (Gauss-Legendre)."""
    distance = (x - ROOT[0]) - ROOT[1]
    t = ROOT[0] + 0.5 * distance[..., None] * (1 + _nodes)
    mean = (np.exp(-0.5 * t * t) * (2 - t * t)) @ (0.5 * DENSITY[0] * _weights)
    return np.asarray(distance * mean)


def _held(x: ArrayLike) -> Float64:
    return np.asarray(np.clip(np.asarray(x, np.float64), -FAR, FAR))


def _product(x: Float64, factor: tuple[Float64 | float, Float64 | float]) -> tuple[Float64, Float64]:
    """x times a sum of two numbers: the rounded product, and what the rounding lost."""
    large, small = factor
    rounded = x * large
    (a, b), (c, d) = _halves(x), _halves(large)
    lost = ((a * c - rounded) + a * d + b * c) + b * d
    return np.asarray(rounded), np.asarray(lost + x * small)


def _halves(x: Float64 | float) -> tuple[Float64 | float, Float64 | float]:
    """x as a sum of two numbers of 26 bits (Veltkamp), whose products are exact."""
    scaled = 134217729.0 * x
    head = scaled - (scaled - x)
    return head, x - head

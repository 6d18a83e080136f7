"""The functions themselves: every form of GELU in float64, and its derivative.

It needs only numpy; how a form is written down, and which forms there are, is the table's business.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64 = NDArray[np.float64]

SQRT2 = math.sqrt(2)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715
ALPHA = 1.702
"""Slope of the sigmoid form: Hendrycks & Gimpel 2016, section 2."""

_erfc = np.frompyfunc(math.erfc, 1, 1)


def cdf(x: ArrayLike) -> Float64:
    """Φ(x) of the standard normal distribution, through erfc, so that the left tail keeps its relative accuracy."""
    return np.asarray(0.5 * np.asarray(_erfc(np.asarray(x, np.float64) / -SQRT2), np.float64))


def gated(x: Float64, gate: Float64) -> Float64:
    """x · gate, with the limit 0 where the gate has closed on −inf (plain multiplication gives NaN there)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isneginf(x), 0.0, x * gate))


def logistic(x: Float64) -> Float64:
    """σ(x) = 1 / (1 + exp(−x)), without overflow on either side and with its relative accuracy in the left tail."""
    decayed = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, decayed, 1.0) / (1 + decayed))


def erf_form(x: ArrayLike) -> Float64:
    """GELU itself: x·Φ(x) (Hendrycks & Gimpel 2016, equation 1)."""
    x = np.asarray(x, np.float64)
    return gated(x, cdf(x))


def erf_gradient(x: ArrayLike) -> Float64:
    """Φ(x) + x·φ(x)."""
    near = np.clip(np.asarray(x, np.float64), -40, 40)
    density = np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    return np.asarray(cdf(x) + near * density)


def gate_form(x: ArrayLike, *odd: float, reach: float = np.inf) -> Float64:
    """x·σ(c₁x + c₃x³ + …) for the coefficients ``odd``, the polynomial taken of x held inside ±``reach``."""
    x = np.asarray(x, np.float64)
    return gated(x, logistic(_polynomial(x, odd, reach)[0]))


def gate_gradient(x: ArrayLike, *odd: float, reach: float = np.inf) -> Float64:
    """σ(p) + x·p′·σ(p)·(1 − σ(p)) for the polynomial p of :func:`gate_form`."""
    x = np.clip(np.asarray(x, np.float64), -1e30, 1e30)
    p, slope = _polynomial(x, odd, reach)
    gate = logistic(p)
    return np.asarray(gate + x * slope * gate * (1 - gate))


def _polynomial(x: Float64, odd: tuple[float, ...], reach: float) -> tuple[Float64, Float64]:
    """An odd polynomial and its derivative, by Horner's rule; x held inside ±1e30 so that no float64 overflows."""
    held = np.clip(x, -min(reach, 1e30), min(reach, 1e30))
    square = held * held
    value = slope = np.zeros_like(held)
    for power in range(2 * len(odd) - 1, 0, -2):
        value = value * square + odd[power // 2]
        slope = slope * square + power * odd[power // 2]
    return np.asarray(value * held), np.asarray(np.where(np.abs(x) < reach, slope, 0.0))


TANH = (2 * SQRT_2_OVER_PI, 2 * SQRT_2_OVER_PI * CUBIC)


def tanh_form(x: ArrayLike) -> Float64:
    """½x·(1 + tanh(√(2/π)(x + 0.044715x³))) (Hendrycks & Gimpel 2016, section 2), which is x·σ of twice that."""
    return gate_form(x, *TANH)


def tanh_gradient(x: ArrayLike) -> Float64:
    """Derivative of the tanh form."""
    return gate_gradient(x, *TANH)


def sigmoid_form(x: ArrayLike, alpha: float = ALPHA) -> Float64:
    """x·σ(αx) (Hendrycks & Gimpel 2016, section 2)."""
    return gate_form(x, alpha)


def sigmoid_gradient(x: ArrayLike, alpha: float = ALPHA) -> Float64:
    """Derivative of the sigmoid form."""
    return gate_gradient(x, alpha)


REFIT3 = (1.600314, 0.0694018)
"""The two coefficients of the tanh form, refitted for the smallest largest error."""
REFIT5, REACH5 = (1.5965385, 0.07282274, -5.347e-4), 9.4
"""With a quintic term; it is negative, so that the polynomial is held at its largest, beyond ±9.4."""


def refit3_form(x: ArrayLike) -> Float64:
    """x·σ(1.600314x + 0.0694018x³)."""
    return gate_form(x, *REFIT3)


def refit3_gradient(x: ArrayLike) -> Float64:
    """Derivative of the refitted form."""
    return gate_gradient(x, *REFIT3)


def refit5_form(x: ArrayLike) -> Float64:
    """x·σ(1.5965385x + 0.07282274x³ − 5.347e-4x⁵), the polynomial held beyond ±9.4."""
    return gate_form(x, *REFIT5, reach=REACH5)


def refit5_gradient(x: ArrayLike) -> Float64:
    """Derivative of the refitted quintic form."""
    return gate_gradient(x, *REFIT5, reach=REACH5)


IGELU_A, IGELU_B = -0.2888, -1.769
"""I-BERT (ICML 2021), equation 8."""


def igelu_form(x: ArrayLike) -> Float64:
    """I-BERT's i-GELU: erf(z) ≈ sgn(z)·(a(min(|z|, −b) + b)² + 1); no transcendental function."""
    x = np.asarray(x, np.float64)
    z = x / SQRT2
    erf = np.sign(z) * (IGELU_A * (np.minimum(np.abs(z), -IGELU_B) + IGELU_B) ** 2 + 1)
    return gated(x, 0.5 * (1 + erf))


def igelu_gradient(x: ArrayLike) -> Float64:
    """½(1 + L(z)) + ½z·L′(z) with L for erf."""
    x = np.clip(np.asarray(x, np.float64), -1e30, 1e30)
    z = x / SQRT2
    inner = np.minimum(np.abs(z), -IGELU_B) + IGELU_B
    erf = np.sign(z) * (IGELU_A * inner**2 + 1)
    return np.asarray(0.5 * (1 + erf) + 0.5 * z * 2 * IGELU_A * np.where(np.abs(z) < -IGELU_B, inner, 0.0))

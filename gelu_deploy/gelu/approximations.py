"""Every function that is taken in GELU's place, in float64, and its derivative.

It needs only numpy; how a form is written down, and which forms there are, is the table's business.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from gelu_deploy.gelu.exact import SQRT2, Float64, gated

SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715
ALPHA = 1.702
"""Slope of the sigmoid form: Hendrycks & Gimpel 2016, section 2."""
HUGE = 1e30
"""Where every gate is open or closed; beyond it x is held, so that no power of it overflows."""


def logistic(x: Float64) -> Float64:
    """σ(x) = 1 / (1 + exp(−x)), without overflow on either side and with its relative accuracy in the left tail."""
    decayed = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, decayed, 1.0) / (1 + decayed))


def gate_form(x: ArrayLike, *odd: float, reach: float = np.inf) -> Float64:
    """x·σ(c₁x + c₃x³ + …) for the coefficients ``odd``, the polynomial taken of x held inside ±``reach``."""
    x = np.asarray(x, np.float64)
    return gated(x, logistic(_polynomial(x, odd, reach)[0]))


def gate_gradient(x: ArrayLike, *odd: float, reach: float = np.inf) -> Float64:
    """σ(p)·(1 + x·p′·σ(−p)) for the polynomial p of :func:`gate_form`."""
    x = np.clip(np.asarray(x, np.float64), -HUGE, HUGE)
    p, slope = _polynomial(x, odd, reach)
    return np.asarray(logistic(p) * (1 + x * slope * logistic(-p)))


def _polynomial(x: Float64, odd: tuple[float, ...], reach: float) -> tuple[Float64, Float64]:
    """An odd polynomial and its derivative, by Horner's rule."""
    held = np.clip(x, -min(reach, HUGE), min(reach, HUGE))
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
    x = np.clip(np.asarray(x, np.float64), -HUGE, HUGE)
    z = x / SQRT2
    inner = np.minimum(np.abs(z), -IGELU_B) + IGELU_B
    erf = np.sign(z) * (IGELU_A * inner**2 + 1)
    return np.asarray(0.5 * (1 + erf) + 0.5 * z * 2 * IGELU_A * np.where(np.abs(z) < -IGELU_B, inner, 0.0))


HGELU_SHIFT, HGELU_TOP = 3.0, 6.0


def hgelu_form(x: ArrayLike) -> Float64:
    """h-GELU, x·ReLU6(1.702x + 3)/6: I-BERT (ICML 2021), section 3.4, after MobileNetV3's h-swish."""
    x = np.asarray(x, np.float64)
    return gated(x, np.clip(ALPHA * x + HGELU_SHIFT, 0, HGELU_TOP) / HGELU_TOP)


def hgelu_gradient(x: ArrayLike) -> Float64:
    """Derivative of h-GELU; in its two kinks that of the flat side."""
    x = np.clip(np.asarray(x, np.float64), -HUGE, HUGE)
    raised = ALPHA * x + HGELU_SHIFT
    bent = (raised > 0) & (raised < HGELU_TOP)
    return np.asarray(np.clip(raised, 0, HGELU_TOP) / HGELU_TOP + np.where(bent, ALPHA / HGELU_TOP * x, 0.0))


AS7127 = (0.278393, 0.230389, 0.000972, 0.078108)
"""Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.27."""


def as7127_form(x: ArrayLike) -> Float64:
    """½x·(1 + erf) with erf(z) ≈ 1 − (1 + a₁z + a₂z² + a₃z³ + a₄z⁴)⁻⁴ for z ≥ 0, and odd."""
    x = np.asarray(x, np.float64)
    tail = 0.5 * _as7127(x)[0] ** -4
    return gated(x, np.where(x < 0, tail, 1 - tail))


def as7127_gradient(x: ArrayLike) -> Float64:
    """Gate and x times its slope, √2·p′·p⁻⁵ on either side."""
    x = np.clip(np.asarray(x, np.float64), -HUGE, HUGE)
    p, slope = _as7127(x)
    tail = 0.5 * p**-4
    return np.asarray(np.where(x < 0, tail, 1 - tail) + x * SQRT2 * slope * p**-5)


def _as7127(x: Float64) -> tuple[Float64, Float64]:
    """The polynomial in |x|/√2, and its derivative; held where its fifth power is near the largest number."""
    z = np.minimum(np.abs(x), 1e14) / SQRT2
    value, slope = np.zeros_like(z), np.zeros_like(z)
    for coefficient in (*reversed(AS7127), 1.0):
        slope = slope * z + value
        value = value * z + coefficient
    return value, slope

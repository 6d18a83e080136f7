"""Every form of GELU in torch: its value, slope and curvature by formula.

The constants are those of the table in :mod:`gelu_deploy.gelu`. It knows nothing of autograd or of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelu_deploy.gelu.approximations import (
    ALPHA,
    AS7127,
    HGELU_SHIFT,
    HGELU_TOP,
    IGELU_A,
    IGELU_B,
    REACH5,
    REFIT3,
    REFIT5,
    TANH,
)
from gelu_deploy.gelu.exact import DENSITY, HALF_ROOT, ROOT, SQRT2

Formula = Callable[[Tensor, int], Tensor]
"""(x, order) to the form's value for order 0, its derivative for 1, the second for 2; any shape, any float type."""

FAR = 1e4
"""Beyond ±1e4 every gate is 0 or 1 in every float type."""
NEAR_ROOT = 0.5
"""Nearer to its root than this, the two terms of GELU's derivative cancel by more than a bit or two."""


def _around_root(terms: int) -> list[float]:
    """Coefficients of GELU's derivative around its root, from that of h¹ on.

    Its own derivative is φ(2 − x²) = φ − φ″, and the k-th of φ is (−1)ᵏHeₖφ with Hermite's polynomials.
    """
    k = np.arange(terms)
    he = np.polynomial.hermite_e.hermevander(np.array(ROOT[:1]), terms + 1)[0]
    density = DENSITY[0] * math.exp(-0.5 * ROOT[0] ** 2)
    series: list[float] = ((-1.0) ** k * density * (he[:-2] - he[2:]) / np.cumprod(k + 1.0)).tolist()
    return series


AROUND_ROOT = _around_root(26)


def exact(x: Tensor, order: int) -> Tensor:
    """x·Φ(x); Φ(x) + x·φ(x), computed in float64 and there within 4 units in the last place; φ(x)·(2 − x²)."""
    if order == 0:
        return x * (0.5 * torch.erfc(x / -SQRT2))  # not ½(1 + erf), of which nothing is left in the left tail
    if order == 2:
        return DENSITY[0] * torch.exp(-0.5 * x * x) * (2 - x * x)
    wide = x.double()
    distance = (wide - ROOT[0]) - ROOT[1]
    near = distance * _horner(distance.clamp(-NEAR_ROOT, NEAR_ROOT), AROUND_ROOT)
    return torch.where(distance.abs() < NEAR_ROOT, near, _terms(wide)).to(x.dtype)


def _terms(x: Tensor) -> Tensor:
    """Φ(x) + x·φ(x), with the roundings put back that e^(−x²/2) would magnify."""
    z, lost_z = _product(-x, HALF_ROOT)
    scaled, lost_scaled = _product(x, DENSITY)
    square, lost_square = _product(x, (x, 0.0))
    decayed = torch.exp(-0.5 * square)
    put_back = lost_scaled - 0.5 * scaled * lost_square - lost_z / math.sqrt(math.pi)
    return (0.5 * torch.erfc(z) + scaled * decayed) + decayed * put_back


def _product(x: Tensor, factor: tuple[Tensor | float, Tensor | float]) -> tuple[Tensor, Tensor]:
    """x times a sum of two numbers: the rounded product, and what the rounding lost (Dekker 1971)."""
    large, small = factor
    rounded = x * large
    (a, b), (c, d) = _halves(x), _halves(large)
    return rounded, (((a * c - rounded) + a * d + b * c) + b * d) + x * small


def _halves(x: Any) -> tuple[Any, Any]:
    """x as a sum of two numbers of 26 bits, whose products are exact (Veltkamp)."""
    scaled = 134217729.0 * x
    head = scaled - (scaled - x)
    return head, x - head


def gate(x: Tensor, order: int, odd: Sequence[float], reach: float = math.inf) -> Tensor:
    """x·σ(p) with p = c₁x + c₃x³ + … of x held inside ±``reach``; σ(p)(1 + xp′σ(−p)); and the derivative of that."""
    held = x if reach == math.inf else x.clamp(-reach, reach)
    p = held * _even(held, odd)
    on = torch.sigmoid(p)
    if order == 0:
        return x * on
    inside, off = (x.abs() < reach).to(x.dtype), torch.sigmoid(-p)
    slope = inside * _even(held, [power * c for power, c in _powers(odd)])
    if order == 1:
        return on * (1 + x * slope * off)
    bend = inside * held * _even(held, [power * (power - 1) * c for power, c in _powers(odd)][1:])
    return on * off * (2 * slope + x * bend + x * slope * slope * (off - on))


def igelu(x: Tensor, order: int) -> Tensor:
    """½x(1 + L(x/√2)) with L(z) = sgn(z)(a(min(|z|, −b) + b)² + 1) for erf; and its derivatives beside its kinks."""
    z = x / SQRT2
    inner = z.abs().clamp(max=-IGELU_B) + IGELU_B
    risen = torch.sign(z) * (IGELU_A * (inner * inner) + 1) + 1
    if order == 0:
        return 0.5 * x * risen
    if order == 1:
        return 0.5 * risen + z * (IGELU_A * inner)
    return IGELU_A * (2 / SQRT2 * inner + 0.5 * x.abs() * (inner < 0))


def hgelu(x: Tensor, order: int) -> Tensor:
    """x·ReLU6(αx + 3)/6; and its derivatives beside its kinks."""
    raised = ALPHA * x + HGELU_SHIFT
    opened = raised.clamp(0, HGELU_TOP) / HGELU_TOP
    if order == 0:
        return x * opened
    bent = ((raised > 0) & (raised < HGELU_TOP)).to(x.dtype) * (ALPHA / HGELU_TOP)
    return opened + x * bent if order == 1 else 2 * bent


def as7127(x: Tensor, order: int) -> Tensor:
    """x times ½p⁻⁴ on the left, 1 − ½p⁻⁴ on the right, p = 1 + a₁z + … + a₄z⁴ of z = |x|/√2; and its derivatives."""
    z = x.abs() / SQRT2
    p = _horner(z, (1.0, *AS7127))
    tail = 0.5 * p**-4
    opened = torch.where(x < 0, tail, 1 - tail)
    if order == 0:
        return x * opened
    slope = _horner(z, [power * a for power, a in enumerate(AS7127, 1)])
    rise = SQRT2 * slope * p**-5
    if order == 1:
        return opened + x * rise
    bend = _horner(z, [power * (power - 1) * a for power, a in enumerate(AS7127, 1)][1:])
    return 2 * rise + x.abs() * (bend * p**-5 - 5 * slope * slope * p**-6)


FORMULAS: Mapping[str, Formula] = {
    "erf": exact,
    "tanh": partial(gate, odd=TANH),
    "sigmoid": partial(gate, odd=(ALPHA,)),
    "refit3": partial(gate, odd=REFIT3),
    "refit5": partial(gate, odd=REFIT5, reach=REACH5),
    "igelu": igelu,
    "hgelu": hgelu,
    "as7127": as7127,
    "erfc": exact,
}
"""By form; the names are those of the table."""


def evaluate(x: Tensor, form: str, order: int) -> Tensor:
    """A form's value or derivative, in the type of x. Derivatives are computed in float32 where x has 16 bits."""
    if order == 0:
        return FORMULAS[form](x, 0)
    wide = x.float() if x.dtype in {torch.float16, torch.bfloat16} else x
    return FORMULAS[form](wide.clamp(-FAR, FAR), order).to(x.dtype)


def _powers(odd: Sequence[float]) -> list[tuple[int, float]]:
    """1, 3, 5, … with their coefficients."""
    return [(2 * index + 1, c) for index, c in enumerate(odd)]


def _even(x: Tensor, coefficients: Sequence[float]) -> Tensor | float:
    """c₀ + c₁x² + c₂x⁴ + …; a number if that is all."""
    return _horner(x * x, coefficients) if len(coefficients) > 1 else sum(coefficients)


def _horner(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """A polynomial with at least two coefficients, the constant first."""
    *lower, highest = coefficients
    value = highest * x + lower.pop()
    for coefficient in reversed(lower):
        value = value * x + coefficient
    return value

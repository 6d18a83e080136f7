"""The table of forms: float64 reference, gradient, distance to exact GELU, and each spelling as data.

It needs only numpy and knows nothing of graphs, files or runtimes. A new form is one more entry of ``FORMS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64 = NDArray[np.float64]
Function = Callable[..., Float64]

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
    """σ(x) = 1 / (1 + exp(−x)), without overflow on either side."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def erf_form(x: ArrayLike) -> Float64:
    """GELU itself: x·Φ(x) (Hendrycks & Gimpel 2016, equation 1)."""
    x = np.asarray(x, np.float64)
    return gated(x, cdf(x))


def erf_gradient(x: ArrayLike) -> Float64:
    """Φ(x) + x·φ(x)."""
    near = np.clip(np.asarray(x, np.float64), -40, 40)
    density = np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    return np.asarray(cdf(x) + near * density)


def _cubic(x: Float64) -> Float64:
    """√(2/π)·(x + 0.044715·x³), held inside ±1e100 so that no float64 overflows."""
    x = np.clip(x, -1e30, 1e30)
    return np.asarray(SQRT_2_OVER_PI * (x + CUBIC * x**3))


def tanh_form(x: ArrayLike) -> Float64:
    """½x·(1 + tanh(√(2/π)(x + 0.044715x³))) (Hendrycks & Gimpel 2016, section 2), as x·σ(2u)."""
    x = np.asarray(x, np.float64)
    return gated(x, logistic(2 * _cubic(x)))


def tanh_gradient(x: ArrayLike) -> Float64:
    """σ(2u) + 2x·u′·σ(2u)·(1 − σ(2u)), u′ = √(2/π)(1 + 3·0.044715x²)."""
    x = np.clip(np.asarray(x, np.float64), -1e30, 1e30)
    gate = logistic(2 * _cubic(x))
    slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x)
    return np.asarray(gate + 2 * x * slope * gate * (1 - gate))


def sigmoid_form(x: ArrayLike, alpha: float = ALPHA) -> Float64:
    """x·σ(αx) (Hendrycks & Gimpel 2016, section 2)."""
    x = np.asarray(x, np.float64)
    return gated(x, logistic(alpha * x))


def sigmoid_gradient(x: ArrayLike, alpha: float = ALPHA) -> Float64:
    """σ(αx) + αx·σ(αx)·(1 − σ(αx))."""
    x = np.clip(np.asarray(x, np.float64), -1e300, 1e300)
    gate = logistic(alpha * x)
    return np.asarray(gate + alpha * x * gate * (1 - gate))


@dataclass(frozen=True)
class Step:
    """One operator of a spelling.

    Attributes:
        op: Operator type.
        inputs: Names of earlier outputs, ``"x"`` for the input, ``"alpha"`` for the slope of the site, or numbers.
        output: Name of the result; the last step's is ``"y"``.
        attributes: ONNX attributes; the value ``"alpha"`` stands for the slope of the site.
        domain: Operator domain.
    """

    op: str
    inputs: tuple[str | float, ...]
    output: str = "y"
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    domain: str = ""


@dataclass(frozen=True)
class Spelling:
    """One way to write a form down, and the first operator set in which it is valid."""

    steps: tuple[Step, ...]
    since: int = 7


@dataclass(frozen=True)
class Form:
    """One mathematical form of GELU.

    Attributes:
        name: Its name in options and reports.
        reference: x -> form(x) in float64, of any shape; takes ``alpha`` when ``alphas`` is not empty.
        gradient: Its derivative, likewise.
        bound: Largest absolute distance to exact GELU over all x.
        worst_at: |x| at which that distance is attained.
        spellings: By name: ``ops``, ``gelu`` (ai.onnx), ``contrib`` (com.microsoft).
        alphas: Slopes that count as this form: the exact one, then its roundings found in real files.
    """

    name: str
    reference: Function
    gradient: Function
    bound: float
    worst_at: float
    spellings: Mapping[str, Spelling]
    alphas: tuple[float, ...] = ()

    def at(self, alpha: float | None) -> Function:
        """The reference with the slope of one site."""
        return self.reference if alpha is None else partial(self.reference, alpha=alpha)


ERF_OPS = Spelling(
    (
        Step("Mul", ("x", 0.5), "half"),
        Step("Div", ("x", SQRT2), "scaled"),
        Step("Erf", ("scaled",), "erf"),
        Step("Add", ("erf", 1.0), "gate"),
        Step("Mul", ("half", "gate")),
    ),
    since=9,
)
"""½ first: the order that the runtime fuses whatever made x, and that float16 survives (x·(1+erf) reaches 2x)."""

TANH_OPS = Spelling(
    (
        Step("Mul", ("x", 0.5), "half"),
        Step("Pow", ("x", 3.0), "cube"),
        Step("Mul", ("cube", CUBIC), "bent"),
        Step("Add", ("x", "bent"), "sum"),
        Step("Mul", ("sum", SQRT_2_OVER_PI), "scaled"),
        Step("Tanh", ("scaled",), "tanh"),
        Step("Add", ("tanh", 1.0), "gate"),
        Step("Mul", ("half", "gate")),
    )
)
"""The order of Hugging Face's ``gelu_new``: the one with a cube that the runtime fuses."""

SIGMOID_OPS = Spelling(
    (
        Step("Mul", ("x", "alpha"), "scaled"),
        Step("Sigmoid", ("scaled",), "gate"),
        Step("Mul", ("x", "gate")),
    )
)


def _gelu(approximate: str) -> Spelling:
    return Spelling((Step("Gelu", ("x",), attributes={"approximate": approximate}),), since=20)


def _contrib(op: str, attributes: Mapping[str, str] | None = None) -> Spelling:
    return Spelling((Step(op, ("x",), attributes=attributes or {}, domain="com.microsoft"),))


FORMS: Mapping[str, Form] = {
    form.name: form
    for form in (
        Form(
            "erf",
            erf_form,
            erf_gradient,
            bound=0.0,
            worst_at=0.0,
            spellings={"ops": ERF_OPS, "gelu": _gelu("none"), "contrib": _contrib("Gelu")},
        ),
        Form(
            "tanh",
            tanh_form,
            tanh_gradient,
            bound=4.733e-4,
            worst_at=2.699,
            spellings={"ops": TANH_OPS, "gelu": _gelu("tanh"), "contrib": _contrib("FastGelu")},
        ),
        Form(
            "sigmoid",
            sigmoid_form,
            sigmoid_gradient,
            bound=2.0336e-2,
            worst_at=2.27,
            spellings={"ops": SIGMOID_OPS, "contrib": _contrib("QuickGelu", {"alpha": "alpha"})},
            alphas=(ALPHA, 1.7, 1.703125, 1.70214844),
        ),
    )
}


def functions() -> list[tuple[str, float | None, Function]]:
    """Every function that counts as a GELU: (form, slope or None, float64 reference)."""
    return [(form.name, alpha, form.at(alpha)) for form in FORMS.values() for alpha in (form.alphas or (None,))]

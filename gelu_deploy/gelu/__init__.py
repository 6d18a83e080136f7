"""The table of forms: reference, gradient, distance to exact GELU, and each spelling as data.

It needs only numpy and knows nothing of graphs, files or runtimes. A new form is one more entry of ``FORMS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from gelu_deploy.gelu.functions import (
    ALPHA,
    CUBIC,
    IGELU_A,
    IGELU_B,
    REACH5,
    REFIT3,
    REFIT5,
    SQRT2,
    SQRT_2_OVER_PI,
    TANH,
    Float64,
    cdf,
    erf_form,
    erf_gradient,
    igelu_form,
    igelu_gradient,
    refit3_form,
    refit3_gradient,
    refit5_form,
    refit5_gradient,
    sigmoid_form,
    sigmoid_gradient,
    tanh_form,
    tanh_gradient,
)

__all__ = [
    "ALPHA",
    "CUBIC",
    "FORMS",
    "Form",
    "Spelling",
    "Step",
    "cdf",
    "erf_form",
    "functions",
    "sigmoid_form",
    "tanh_form",
]

Function = Callable[..., Float64]


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


def _gate3(first: float, third: float) -> Spelling:
    """x·σ(x(first + third·x²)): six operators."""
    return Spelling(
        (
            Step("Mul", ("x", "x"), "square"),
            Step("Mul", ("square", third), "bent"),
            Step("Add", ("bent", first), "slope"),
            Step("Mul", ("x", "slope"), "scaled"),
            Step("Sigmoid", ("scaled",), "gate"),
            Step("Mul", ("x", "gate")),
        )
    )


TANH_SAFE = _gate3(*TANH)
"""The same function as x·σ(x(2√(2/π) + 2·0.044715√(2/π)x²)): six operators for eight. Its square may overflow to inf
and the gate is still 0 or 1, where x³ and an exp-based Tanh give NaN; and it has no ½x that the runtime could merge."""

SIGMOID_OPS = Spelling(
    (
        Step("Mul", ("x", "alpha"), "scaled"),
        Step("Sigmoid", ("scaled",), "gate"),
        Step("Mul", ("x", "gate")),
    )
)


REFIT5_OPS = Spelling(
    (
        Step("Min", ("x", REACH5), "below"),
        Step("Max", ("below", -REACH5), "held"),
        Step("Mul", ("held", "held"), "square"),
        Step("Mul", ("square", REFIT5[2]), "fifth"),
        Step("Add", ("fifth", REFIT5[1]), "third"),
        Step("Mul", ("square", "third"), "bent"),
        Step("Add", ("bent", REFIT5[0]), "slope"),
        Step("Mul", ("held", "slope"), "scaled"),
        Step("Sigmoid", ("scaled",), "gate"),
        Step("Mul", ("x", "gate")),
    ),
    since=8,
)

IGELU_OPS = Spelling(
    (
        Step("Mul", ("x", 0.5), "half"),
        Step("Div", ("x", SQRT2), "scaled"),
        Step("Abs", ("scaled",), "size"),
        Step("Min", ("size", -IGELU_B), "held"),
        Step("Add", ("held", IGELU_B), "shifted"),
        Step("Mul", ("shifted", "shifted"), "square"),
        Step("Mul", ("square", IGELU_A), "bent"),
        Step("Add", ("bent", 1.0), "risen"),
        Step("Sign", ("scaled",), "sign"),
        Step("Mul", ("sign", "risen"), "erf"),
        Step("Add", ("erf", 1.0), "gate"),
        Step("Mul", ("half", "gate")),
    ),
    since=9,
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
            spellings={
                "ops": TANH_OPS,
                "ops-safe": TANH_SAFE,
                "sigmoid3": TANH_SAFE,
                "gelu": _gelu("tanh"),
                "contrib": _contrib("FastGelu"),
            },
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
        Form(
            "refit3",
            refit3_form,
            refit3_gradient,
            bound=2.708e-4,
            worst_at=1.742,
            spellings={"ops": _gate3(*REFIT3)},
        ),
        Form(
            "refit5",
            refit5_form,
            refit5_gradient,
            bound=7.82e-5,
            worst_at=3.0065,
            spellings={"ops": REFIT5_OPS},
        ),
        Form("igelu", igelu_form, igelu_gradient, bound=1.8153e-2, worst_at=2.35, spellings={"ops": IGELU_OPS}),
    )
}


def functions() -> list[tuple[str, float | None, Function]]:
    """Every function that counts as a GELU: (form, slope or None, float64 reference)."""
    return [(form.name, alpha, form.at(alpha)) for form in FORMS.values() for alpha in (form.alphas or (None,))]

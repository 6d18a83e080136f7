"""The table of forms: reference, gradient, distance to exact GELU, and each spelling as data.

It needs only numpy and knows nothing of graphs, files or runtimes. The mathematics is in ``exact`` and
``approximations``, the ways to write a form down in ``spellings``; ``accuracy`` and ``precision`` measure them. A new
form is one more entry of ``FORMS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from gelu_deploy.gelu.approximations import (
    ALPHA,
    CUBIC,
    as7127_form,
    as7127_gradient,
    hgelu_form,
    hgelu_gradient,
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
from gelu_deploy.gelu.exact import Float64, cdf, erf_form, erf_gradient
from gelu_deploy.gelu.spellings import (
    AS7127_OPS,
    ERF_OPS,
    ERFC_ATEN,
    HGELU_OPS,
    IGELU_OPS,
    REFIT3_OPS,
    REFIT5_OPS,
    SIGMOID_OPS,
    TANH_OPS,
    TANH_SAFE,
    Spelling,
    Step,
    contrib,
    gelu,
)

__all__ = [
    "ALPHA",
    "CUBIC",
    "FORMS",
    "REFERENCES",
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
class Form:
    """One mathematical form of GELU.

    Attributes:
        name: Its name in options and reports.
        reference: x -> form(x) in float64, of any shape; takes ``alpha`` when ``alphas`` is not empty.
        gradient: Its derivative, likewise.
        bound: Largest absolute distance to exact GELU, rounded up; beyond ±40 relative to ``|x|/40``.
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


FORMS: Mapping[str, Form] = {
    form.name: form
    for form in (
        Form(
            "erf",
            erf_form,
            erf_gradient,
            bound=0.0,
            worst_at=0.0,
            spellings={"ops": ERF_OPS, "gelu": gelu("none"), "contrib": contrib("Gelu")},
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
                "gelu": gelu("tanh"),
                "contrib": contrib("FastGelu"),
            },
        ),
        Form(
            "sigmoid",
            sigmoid_form,
            sigmoid_gradient,
            bound=2.0336e-2,
            worst_at=2.27,
            spellings={"ops": SIGMOID_OPS, "contrib": contrib("QuickGelu", {"alpha": "alpha"})},
            alphas=(ALPHA, 1.7, 1.703125, 1.70214844),
        ),
        Form(
            "refit3",
            refit3_form,
            refit3_gradient,
            bound=2.708e-4,
            worst_at=1.742,
            spellings={"ops": REFIT3_OPS},
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
"""The forms that a GELU can be found to be, and be written as."""

REFERENCES: Mapping[str, Form] = {
    form.name: form
    for form in (
        Form("hgelu", hgelu_form, hgelu_gradient, bound=6.871e-2, worst_at=1.7626, spellings={"ops": HGELU_OPS}),
        Form(
            "as7127",
            as7127_form,
            as7127_gradient,
            bound=6.88e-4,
            worst_at=3.008,
            spellings={"ops": AS7127_OPS},
        ),
        Form("erfc", erf_form, erf_gradient, bound=0.0, worst_at=0.0, spellings={"aten": ERFC_ATEN}),
    )
}
"""What is taken for GELU elsewhere: measured beside the forms, never found in a graph and never written to one."""


def functions() -> list[tuple[str, float | None, Function]]:
    """Every function that counts as a GELU: (form, slope or None, float64 reference)."""
    return [(form.name, alpha, form.at(alpha)) for form in FORMS.values() for alpha in (form.alphas or (None,))]

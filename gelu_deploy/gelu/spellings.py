"""How each form is written down, as data: which operators, of what, in which order.

It knows the constants of the functions and nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gelu_deploy.gelu.approximations import (
    ALPHA,
    AS7127,
    CUBIC,
    HGELU_SHIFT,
    HGELU_TOP,
    IGELU_A,
    IGELU_B,
    REACH5,
    REFIT3,
    REFIT5,
    SQRT_2_OVER_PI,
    TANH,
)
from gelu_deploy.gelu.exact import SQRT2

CONTRIB = "com.microsoft"
HIDDEN = "ops-safe"
"""Name of a spelling that is chosen and cannot be asked for; ``sigmoid3`` is the same."""
ATEN = "aten"
"""PyTorch's own operators, which no operator set of ONNX has."""


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


REFIT3_OPS = _gate3(*REFIT3)

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


HGELU_OPS = Spelling(
    (
        Step("Mul", ("x", ALPHA), "scaled"),
        Step("Add", ("scaled", HGELU_SHIFT), "raised"),
        Step("Max", ("raised", 0.0), "above"),
        Step("Min", ("above", HGELU_TOP), "held"),
        Step("Div", ("held", HGELU_TOP), "gate"),
        Step("Mul", ("x", "gate")),
    ),
    since=8,
)

AS7127_OPS = Spelling(
    (
        Step("Mul", ("x", 0.5), "half"),
        Step("Div", ("x", SQRT2), "scaled"),
        Step("Abs", ("scaled",), "size"),
        Step("Mul", ("size", AS7127[3]), "fourth"),
        Step("Add", ("fourth", AS7127[2]), "third"),
        Step("Mul", ("size", "third"), "bent3"),
        Step("Add", ("bent3", AS7127[1]), "second"),
        Step("Mul", ("size", "second"), "bent2"),
        Step("Add", ("bent2", AS7127[0]), "first"),
        Step("Mul", ("size", "first"), "bent1"),
        Step("Add", ("bent1", 1.0), "root"),
        Step("Mul", ("root", "root"), "square"),
        Step("Mul", ("square", "square"), "power"),
        Step("Div", (1.0, "power"), "rest"),
        Step("Sub", (1.0, "rest"), "risen"),
        Step("Sign", ("scaled",), "sign"),
        Step("Mul", ("sign", "risen"), "erf"),
        Step("Add", ("erf", 1.0), "gate"),
        Step("Mul", ("half", "gate")),
    ),
    since=9,
)

ERFC_ATEN = Spelling(
    (
        Step("Mul", ("x", 0.5), "half"),
        Step("Div", ("x", -SQRT2), "scaled"),
        Step("Erfc", ("scaled",), "gate", domain=ATEN),
        Step("Mul", ("half", "gate")),
    )
)
"""½x·erfc(−x/√2): nothing cancels in the left tail. ONNX has no such operator."""


def gelu(approximate: str) -> Spelling:
    """The one operator of ai.onnx."""
    return Spelling((Step("Gelu", ("x",), attributes={"approximate": approximate}),), since=20)


def contrib(op: str, attributes: Mapping[str, str] | None = None) -> Spelling:
    """One operator of ONNX Runtime's own."""
    return Spelling((Step(op, ("x",), attributes=attributes or {}, domain=CONTRIB),))

"""Do two sets of arrays agree? NumPy only; every default tolerance of the package stands in one table here.

It knows nothing of graphs, files or runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelu_deploy.errors import UsageError
from gelu_deploy.keywords import once
from gelu_deploy.results import Stage

Array = NDArray[Any]


@dataclass(frozen=True)
class Tolerance:
    """What may differ for one type of numbers.

    Attributes:
        output: A network's output may be off by ``output · max(1, max|y|)``.
        site: A GELU may be off its own form by ``site · max(1, |x|)``.
        form: Two functions of x nearer than this on the recognition grid are one form (its constants were rounded).
    """

    output: float
    site: float
    form: float


TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(output=1e-9, site=1e-12, form=5e-5),
    "float32": Tolerance(output=2e-5, site=2e-6, form=5e-5),
    "float16": Tolerance(output=1e-2, site=2e-3, form=2e-4),
    "bfloat16": Tolerance(output=8e-2, site=1.6e-2, form=4e-4),
}
"""By dtype. The float32 row stays below 1e-4 everywhere: erf and tanh are 4.7e-4 apart. A 16-bit site may be off by the
rounding of its own spelled-out steps (two to four units in the last place)."""


@dataclass(frozen=True)
class Limits:
    """Tolerances of one check: the table's, or the user's.

    Attributes:
        absolute: ``--atol`` by output name, ``""`` for all.
        relative: ``--rtol`` likewise; when either is given the table is not used for that output.
    """

    absolute: Mapping[str, float] = field(default_factory=dict[str, float])
    relative: Mapping[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def parse(cls, atol: Iterable[str], rtol: Iterable[str]) -> Limits:
        """From ``--atol 1e-5 --atol logits:1e-4``. Raises UsageError for anything that is no number."""
        return cls(_numbers("--atol", atol), _numbers("--rtol", rtol))

    def for_outputs(self, names: Iterable[str]) -> Limits:
        """The same. Raises UsageError when one of them is for an output that is not among ``names``."""
        known = ["", *names]
        for flag, limits in (("--atol", self.absolute), ("--rtol", self.relative)):
            for name in limits:
                if name not in known:
                    outputs = ", ".join(known[1:])
                    raise UsageError(f"{flag} {name}:{limits[name]:g}: there is no such output; they are {outputs}")
        return self

    def allowed(self, name: str, wanted: Array) -> float:
        """Largest permitted ``|got - wanted|`` for one output."""
        finite = np.abs(wanted[np.isfinite(wanted)]) if wanted.size else wanted
        scale = float(finite.max()) if finite.size else 0.0
        absolute = self.absolute.get(name, self.absolute.get(""))
        relative = self.relative.get(name, self.relative.get(""))
        if absolute is not None or relative is not None:
            return (absolute or 0.0) + (relative or 0.0) * scale
        return tolerance(wanted.dtype).output * max(1.0, scale)


def tolerance(dtype: Any) -> Tolerance:
    """The row of the table for a dtype or its name; integers and booleans must agree exactly."""
    return TOLERANCES.get(str(np.dtype(dtype).name) if not isinstance(dtype, str) else dtype, Tolerance(0.0, 0.0, 0.0))


def compare(name: str, pairs: Iterable[tuple[str, Array, Array]], limits: Limits) -> Stage:
    """One line of the waterfall from (output name, got, wanted).

    ``ratio`` is the difference as a multiple of what is allowed; NaN and inf must stand in the same places.
    """
    worst = Stage(name=name, max_abs=0.0, max_rel=0.0, ratio=0.0, worst="", passed=True)
    for label, got, wanted in pairs:
        absolute, relative = difference(got, wanted)
        allowed = limits.allowed(label, wanted)
        ratio = absolute / allowed if allowed else (0.0 if absolute == 0 else np.inf)
        worst = _worse(worst, label, absolute, relative, ratio)
    return worst


def site_stage(name: str, taps: Iterable[tuple[str, Array, Array, Array]]) -> Stage:
    """One line from (site, its input x, its output, reference form of x in float64); the limit grows with ``|x|``.

    Where ``x`` is infinite or NaN nothing is judged: spellings of one form differ there, PyTorch's own included.
    """
    worst = Stage(name=name, max_abs=0.0, max_rel=0.0, ratio=0.0, worst="", passed=True)
    for label, x, got, wanted in taps:
        absolute = relative = ratio = np.inf
        if got.shape == wanted.shape == x.shape:
            judged = np.isfinite(x.astype(np.float64))
            absolute, relative = difference(got[judged], wanted[judged])
            allowed = tolerance(x.dtype).site * np.maximum(1.0, np.abs(x[judged].astype(np.float64)))
            if np.isfinite(absolute) and allowed.all():
                gap = np.abs(got[judged].astype(np.float64) - wanted[judged])
                ratio = float(np.max(gap / allowed, initial=0.0))
        worst = _worse(worst, label, absolute, relative, ratio)
    return worst


def difference(got: Array, wanted: Array) -> tuple[float, float]:
    """Largest absolute difference, and the same over the largest magnitude wanted; inf where NaN or shapes disagree."""
    if got.shape != wanted.shape:
        return np.inf, np.inf
    if not got.size:
        return 0.0, 0.0
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    agree = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(agree, 0.0, np.abs(a - b))
    if np.isnan(gap).any():
        return np.inf, np.inf
    largest = float(gap.max())
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    return largest, largest / scale if scale else (0.0 if largest == 0 else np.inf)


def _worse(stage: Stage, label: str, absolute: float, relative: float, ratio: float) -> Stage:
    return Stage(
        name=stage["name"],
        max_abs=max(stage["max_abs"], absolute),
        max_rel=max(stage["max_rel"], relative),
        ratio=max(stage["ratio"], ratio),
        worst=label if ratio > stage["ratio"] or not stage["worst"] else stage["worst"],
        passed=stage["passed"] and ratio <= 1,
    )


def _numbers(flag: str, texts: Iterable[str]) -> dict[str, float]:
    return once(flag, (_number(flag, text) for text in texts))


def _number(flag: str, text: str) -> tuple[str, float]:
    name, _, value = text.rpartition(":")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < np.inf:
        raise UsageError(f"{flag} {text}: expected a number such as 1e-5, or OUTPUT:1e-5 for one output")
    return name, number

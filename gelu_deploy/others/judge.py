"""Which form of GELU numbers are: the nearest by float64 reference. It knows arrays and the table of forms only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gelu_deploy import gelu
from gelu_deploy.graph.judge import FAR, NEAR
from gelu_deploy.parity import tolerance

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array

NONE = "none"


@dataclass(frozen=True)
class Nearest:
    """What a GELU was computed as.

    Attributes:
        form: The nearest form; ``none`` if all are farther than what is like a GELU.
        error: Largest distance to it; relative to ``|x|`` where that is over 40.
        margin: By how much the nearest other form is farther.
        distances: Of every form.
        sure: Whether the margin is more than what separates two roundings of one form.
    """

    form: str
    error: float
    margin: float
    distances: dict[str, float]
    sure: bool


def nearest(x: Array, y: Array) -> Nearest:
    """The form that ``y`` is of ``x``; where ``x`` is not finite nothing is judged."""
    wide, seen = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    finite = np.isfinite(wide)
    wide, seen = wide[finite], seen[finite]
    scale = np.maximum(1.0, np.abs(wide) / FAR)
    distances = dict[str, float]()
    for form, _, function in gelu.functions():
        gap = np.abs(function(wide) - seen) / scale
        error = float(np.max(np.where(np.isnan(gap), np.inf, gap), initial=0.0))
        distances[form] = min(error, distances.get(form, np.inf))
    first, second = sorted(distances, key=distances.__getitem__)[:2]
    error, margin = distances[first], distances[second] - distances[first]
    if not error <= NEAR:
        return Nearest(NONE, error, 0.0, distances, sure=True)
    return Nearest(first, error, margin, distances, sure=margin > tolerance(x.dtype).form)

"""``--calib-method auto``: the method whose quantized network is best on data that the ranges were not fitted to.

It knows neither how a network is quantized nor how it is judged: whoever calls it does both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gelu_deploy.quantization.calibration.methods import METHODS, Method, ranges
from gelu_deploy.quantization.calibration.observing import Observation
from gelu_deploy.quantization.network import Range


@dataclass(frozen=True)
class Choice:
    """A method and what it gives.

    Attributes:
        method: The one chosen.
        ranges: Its ranges, by value.
        scores: What each method scored on held-out data, in dB.
    """

    method: Method
    ranges: dict[str, Range]
    scores: dict[Method, float]


def choose(
    observations: Mapping[str, Observation],
    judge: Callable[[Mapping[str, Range]], float],
    methods: Sequence[Method] = METHODS,
) -> Choice:
    """The best of the methods by ``judge``, one for the whole network; never one that scores below ``minmax``.

    Args:
        observations: What was seen of each value.
        judge: The score of the network quantized with these ranges, on held-out data, in dB: its outputs' SQNR. NaN is
            the worst there is.
        methods: What to try beside ``minmax``, which is always tried first and wins ties.
    """
    order: list[Method] = ["minmax", *(method for method in methods if method != "minmax")]
    tried: dict[Method, dict[str, Range]] = {method: ranges(observations, method) for method in order}
    scores: dict[Method, float] = {method: float(judge(found)) for method, found in tried.items()}
    best = max(order, key=lambda method: -math.inf if math.isnan(scores[method]) else scores[method])
    return Choice(best, tried[best], scores)

"""How long variants take and what memory they need, with intervals that say how far the numbers can be believed.

``timing`` times; here stands how many runs that takes, and what many runs say. It knows nothing of models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from gelu_deploy.arrays import Array
from gelu_deploy.errors import SetupError
from gelu_deploy.results import Estimate, LatencyResult
from gelu_deploy.timing.interleaved import Timing, Variant, timed

ROUNDS = 7
"""At least."""
HIGH = 0.99
"""The quantile that a budget is of."""


@dataclass(frozen=True)
class Latency:
    """What timing says of one variant.

    Attributes:
        result: For the table.
        high: The 99th percentile of its runs.
        memory: Peak bytes of its process.
    """

    result: LatencyResult
    high: Estimate
    memory: int


def latencies(
    variants: Sequence[Variant], feeds: Mapping[str, Array], base: str, seconds: float, confidence: float
) -> dict[str, Latency]:
    """Time all in turns, with as many runs as the confidence takes or the time allows.

    Args:
        variants: Each in a process of its own.
        feeds: What each run is given.
        base: Name of the variant whose time the others' is a ratio of.
        seconds: For all of it, without opening.
        confidence: Of intervals.

    Raises:
        NativeCrash: A variant cannot be opened in a process of its own, or dies there.
    """
    rounds = max(ROUNDS, enough(0.5, confidence))
    each = math.ceil(enough(HIGH, confidence) / rounds)
    turn = seconds / (rounds * len(variants))
    found = timed(variants, feeds, rounds=rounds, runs=each, seconds=turn)
    reference = next(timing for timing in found if timing.name == base)
    return {timing.name: _latency(timing, reference, confidence) for timing in found}


def need_scipy() -> None:
    """Raises SetupError with the command to type where SciPy, which intervals are computed with, is not installed."""
    if find_spec("scipy") is None:
        raise SetupError("intervals are computed with SciPy, which is not installed: pip install 'gelu-deploy[report]'")


def enough(q: float, confidence: float) -> int:
    """The number of runs from which on a quantile has an upper bound: its largest run is above it with confidence."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(q))


def quantile(values: Array, q: float, confidence: float) -> Estimate:
    """A quantile of what ``values`` is a sample of, and the order statistics around it.

    As many of n values are below the true quantile as successes with chance q come in n trials, whatever their
    distribution (David and Nagaraja, Order Statistics, 7.1). A bound is infinite where there are too few values for it.
    """
    from scipy.special import bdtr

    tail, ordered = (1 - confidence) / 2, np.sort(values)
    padded = np.concatenate([[-math.inf], ordered, [math.inf]])
    below = bdtr(np.arange(len(ordered) + 1), len(ordered), q)
    low, high = np.searchsorted(below, [tail, 1 - tail])
    return Estimate(value=float(np.quantile(ordered, q)), low=float(padded[low]), high=float(padded[high + 1]))


def _latency(timing: Timing, base: Timing, confidence: float) -> Latency:
    runs = np.concatenate(timing.rounds)
    middle, late = (float(np.quantile(runs, q)) for q in (0.5, 0.9))
    high = quantile(runs, HIGH, confidence)
    ratio = quantile(timing.ratios(base), 0.5, confidence)
    result = LatencyResult(p50=middle, p90=late, p99=high["value"], runs=len(runs), ratio=ratio)
    return Latency(result, high, timing.memory)

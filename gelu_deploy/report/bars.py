"""Bars and intervals in rows: the error waterfall, the ranking of layers, and the loss of model and twin.

Positions are shares of the width in percent. It knows nothing of how they are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

from gelu_deploy.report import scales, words
from gelu_deploy.results import ActivationResult, Estimate, MetricResult, SensitivityResult, WaterfallResult

RANKED = 12
"""Layers of a ranking that are shown."""

Ticks = list[tuple[float, str]]


@dataclass(frozen=True)
class Step:
    """One cause of error: its bar from ``left``, its share of the whole, where the signal stands after it, in dB."""

    name: str
    left: float
    width: float
    share: float
    sqnr: float
    flips: int

    @property
    def undoes(self) -> bool:
        """Whether it takes error away."""
        return self.share < 0


@dataclass(frozen=True)
class Waterfall:
    """All steps of one variant on an axis of the energy of its error, of which the whole is 100 %."""

    result: WaterfallResult
    steps: list[Step]
    ticks: Ticks

    @property
    def largest(self) -> Step | None:
        """The cause of most of the error; None where there is no error, or no number for it."""
        drawn = [step for step in self.steps if step.width > 0]
        return max(drawn, key=lambda step: step.share, default=None)


def waterfall(result: WaterfallResult) -> Waterfall:
    """One variant, the steps one after the other; without bars where its error is not a number above zero."""
    whole = result["noise"] if 0 < result["noise"] < math.inf else math.nan
    noises = [step["noise"] for step in result["steps"]]
    totals = [0.0, *accumulate(noises)]
    reached = [total / whole for total in totals if math.isfinite(total / whole)]
    scale = scales.Scale(min(0.0, *reached), max(1.0, *reached)) if reached else scales.Scale(0.0, 1.0)
    steps = list[Step]()
    for step, (before, after) in zip(result["steps"], pairwise(totals), strict=True):
        left, width = _bar(scale, before / whole, after / whole)
        steps.append(Step(step["name"], left, width, step["noise"] / whole, _sqnr(after), step["flips"]))
    return Waterfall(result, steps, [(100 * scale.at(tick), words.share(tick, 0)) for tick in scale.ticks(5)])


def _bar(scale: scales.Scale, before: float, after: float) -> tuple[float, float]:
    """Left end and width between two shares."""
    if math.isnan(before) or math.isnan(after):
        return 0.0, 0.0
    left, right = sorted((100 * scale.at(before), 100 * scale.at(after)))
    return left, right - left


def _sqnr(noise: float) -> float:
    """In dB, of noise over signal."""
    return -10 * math.log10(noise) if noise > 0 else math.nan if math.isnan(noise) else math.inf


@dataclass(frozen=True)
class Bar:
    """One layer of a ranking."""

    layer: SensitivityResult
    width: float


def ranked(layers: list[SensitivityResult]) -> list[Bar]:
    """The worst ones, each with a bar as long as its divergence; the longest fills the width."""
    shown = [one for one in layers if math.isfinite(one["kl"])][:RANKED]
    longest = max((one["kl"] for one in shown), default=0.0) or 1.0
    return [Bar(one, 100 * one["kl"] / longest) for one in shown]


@dataclass(frozen=True)
class Interval:
    """One estimate as a line with a point on it."""

    name: str
    estimate: Estimate
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Intervals:
    """Model and twin on one axis, on which ``zero`` is no loss."""

    rows: list[Interval]
    zero: float
    ticks: Ticks


def intervals(result: ActivationResult, metric: MetricResult) -> Intervals:
    """What INT8 costs the model, what it costs the twin, and how much more the model."""
    named = [
        ("model", result["model_loss"]),
        ("twin", result["twin_loss"]),
        ("model less twin", result["difference"]),
    ]
    scale = scales.around([0.0, *(end for _, one in named for end in (one["low"], one["value"], one["high"]))])
    rows = [Interval(name, one, *(100 * scale.at(one[end]) for end in ("value", "low", "high"))) for name, one in named]
    ticks, factor = scale.ticks(5), 100 if metric["percent"] else 1
    digits = scales.decimals([factor * tick for tick in ticks])
    return Intervals(
        rows, 100 * scale.at(0.0), [(100 * scale.at(tick), words.fixed(factor * tick, digits)) for tick in ticks]
    )

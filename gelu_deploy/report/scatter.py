"""The plot of what a variant answers against what it costs: where its points, lines and labels are.

Across, positions are shares of the width in percent, so that the plot fits any screen; downwards they are pixels. It
knows nothing of how they are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gelu_deploy.report import labels, scales, words
from gelu_deploy.report.labels import Placed
from gelu_deploy.results import CompareResult, Estimate, LatencyResult, VariantResult

HEIGHT = 340
LABEL = 22
"""Characters of a name that its label keeps."""
LINEAR = 3.0
"""Largest ratio of two times that a linear axis shows well."""


@dataclass(frozen=True)
class Point:
    """One variant; ``x``, ``p90`` and ``p99`` in percent, ``y``, ``low`` and ``high`` in pixels."""

    variant: VariantResult
    x: float
    p90: float
    p99: float
    y: float
    low: float
    high: float
    text: str
    label: Placed

    @property
    def integer(self) -> bool:
        """Whether it is more than the original in another file."""
        return self.variant["precision"] not in {"pytorch", "float"}


@dataclass(frozen=True)
class Scatter:
    """All points and both axes: the places of their ticks, and what they say."""

    points: list[Point]
    across: list[tuple[float, str]]
    upwards: list[tuple[float, str]]
    unit: str
    logarithmic: bool


def scatter(result: CompareResult) -> Scatter | None:
    """The plot, or None where not one variant was timed and scored.

    Where nothing was scored, the share of answers that stayed the float file's takes the place of the score.
    """
    scored = any(one["score"] for one in result["variants"])
    seen = [(one, one["latency"], _height(one, scored)) for one in result["variants"]]
    shown = [(one, latency, value) for one, latency, value in seen if latency is not None and value is not None]
    if not shown:
        return None
    times = scales.around([time for _, taken, _ in shown for time in (taken["p50"], taken["p99"])], spread=LINEAR)
    values = scales.around([end for _, _, value in shown for end in (value["low"], value["high"])])
    places = [(times.at(taken["p50"]), HEIGHT * (1 - values.at(value["value"]))) for _, taken, value in shown]
    texts = [_short(one["name"]) for one, _, _ in shown]
    whiskers = [(x, times.at(taken["p99"]), y) for (x, y), (_, taken, _) in zip(places, shown, strict=True)]
    beside = labels.place(places, texts, whiskers, HEIGHT)
    points = [
        _point(one, text, label, times, values)
        for one, text, label in zip(shown, texts, beside, strict=True)
    ]  # fmt: skip
    return Scatter(points, _across(times), _upwards(values, result, scored), _unit(result, scored), times.logarithmic)


def _height(one: VariantResult, scored: bool) -> Estimate | None:
    if scored:
        return one["score"]
    same = one["agreement"]
    return None if math.isnan(same) else Estimate(value=same, low=same, high=same)


def _point(
    shown: tuple[VariantResult, LatencyResult, Estimate],
    text: str,
    label: Placed,
    times: scales.Scale,
    values: scales.Scale,
) -> Point:
    one, taken, value = shown
    x, p90, p99 = (100 * times.at(taken[name]) for name in ("p50", "p90", "p99"))
    y, low, high = (HEIGHT * (1 - values.at(end)) for end in (value["value"], value["low"], value["high"]))
    return Point(one, x, p90, p99, y, low, high, text, label)


def _short(name: str) -> str:
    return name if len(name) <= LABEL else f"{name[: LABEL - 1]}…"


def _across(times: scales.Scale) -> list[tuple[float, str]]:
    ticks = times.ticks()
    digits = scales.decimals(ticks)
    texts = (f"{tick:g}" if times.logarithmic else words.fixed(tick, digits) for tick in ticks)
    return [(100 * times.at(tick), text) for tick, text in zip(ticks, texts, strict=True)]


def _upwards(values: scales.Scale, result: CompareResult, scored: bool) -> list[tuple[float, str]]:
    ticks, percent = values.ticks(), result["metric"]["percent"] or not scored
    digits = max(0, scales.decimals(ticks) - 2 * percent)
    return [
        (HEIGHT * (1 - values.at(tick)), words.share(tick, digits) if percent else words.fixed(tick, digits))
        for tick in ticks
    ]


def _unit(result: CompareResult, scored: bool) -> str:
    if not scored:
        return "answers that stay the float file’s"
    better = "" if result["metric"]["higher_is_better"] else ", lower is better"
    return f"{result['metric']['name']}{better}"

"""The columns of the table of variants, for Markdown and HTML alike: headers, and the lines of a cell.

It knows a variant and nothing of how a table is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gelu_deploy.report import words
from gelu_deploy.results import MetricResult, VariantResult

ANSWERS, COST = "answers", "cost"
"""Groups."""
Lines = list[str]


@dataclass(frozen=True)
class Column:
    """One column; ``name`` is what tests and links call it, ``group`` the header over it and its neighbours."""

    name: str
    group: str
    header: str
    lines: Callable[[VariantResult], Lines]
    """The value, and below it what is known of it."""

    @property
    def number(self) -> bool:
        """Whether it is set to the right."""
        return self.name != "kernels"


def columns(metric: MetricResult) -> list[Column]:
    """All of them, of answers first, then of cost."""
    unit = ", points" if metric["percent"] else ""
    return [
        Column("score", ANSWERS, metric["name"], lambda one: _score(one, metric)),
        Column("loss", ANSWERS, f"loss{unit}", lambda one: _loss(one, metric)),
        Column("flips", ANSWERS, "lost : gained", _flips),
        Column("agreement", ANSWERS, "same answers", lambda one: [words.share(one["agreement"], 2)]),
        Column("kl", ANSWERS, "KL, nats", lambda one: [words.figures(one["kl"], 2)]),
        Column("sqnr", ANSWERS, "SQNR, dB", lambda one: [words.fixed(one["sqnr"], 1)]),
        Column("bytes", COST, "size", lambda one: [words.size(one["bytes"])]),
        Column("p50", COST, "p50, ms", lambda one: [words.figures(one["latency"] and one["latency"]["p50"])]),
        Column("p90", COST, "p90, ms", lambda one: [words.figures(one["latency"] and one["latency"]["p90"])]),
        Column("p99", COST, "p99, ms", lambda one: [words.figures(one["latency"] and one["latency"]["p99"])]),
        Column("ratio", COST, "of float’s time", _ratio),
        Column("memory", COST, "peak memory", lambda one: [words.size(one["memory"])]),
        Column("integer_share", COST, "in integers", lambda one: [words.share(one["integer_share"])]),
        Column("kernels", COST, "kernels per GELU", lambda one: words.kernels(one) or [words.DASH]),
    ]


def _score(one: VariantResult, metric: MetricResult) -> Lines:
    if one["score"] is None:
        return [words.DASH]
    return [words.score(one["score"]["value"], metric), words.score_interval(one["score"], metric)]


def _loss(one: VariantResult, metric: MetricResult) -> Lines:
    gap = one["difference"]
    if gap is None:
        return [words.DASH]
    value = words.loss(gap["loss"]["value"], metric).removesuffix(" points")
    more = [f"{gap['more_rows']:,} more rows to tell"] if gap["more_rows"] else []
    return [value, words.loss_interval(gap["loss"], metric), f"against {gap['against']}", *more]


def _flips(one: VariantResult) -> Lines:
    chance = words.chance(one["difference"])
    return [words.flips(one["difference"]), *([chance] if chance else [])]


def _ratio(one: VariantResult) -> Lines:
    if one["latency"] is None:
        return [words.DASH]
    return [words.speed(one["latency"]), words.speed_interval(one["latency"])]

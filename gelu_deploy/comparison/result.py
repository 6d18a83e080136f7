"""All variants measured, and everything that is said of them.

It joins the parts of this room; what it is given has been made already.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from gelu_deploy.comparison import gates
from gelu_deploy.comparison.activation import Pair, activation
from gelu_deploy.comparison.answering import Judged, judged
from gelu_deploy.comparison.candidates import TWIN
from gelu_deploy.comparison.cast import Cast
from gelu_deploy.comparison.causes import waterfalls
from gelu_deploy.comparison.gates import Budget
from gelu_deploy.comparison.histograms import histograms
from gelu_deploy.comparison.latency import Latency, latencies
from gelu_deploy.comparison.rows import Table
from gelu_deploy.options import CompareOptions
from gelu_deploy.progress import step
from gelu_deploy.results import (
    ActivationResult,
    CompareResult,
    MetricResult,
    SensitivityRanking,
    SiteHistogram,
    WaterfallResult,
)
from gelu_deploy.scoring.metric import Metric
from gelu_deploy.timing import machine

SCHEMA = "gelu-deploy/compare/1"


def result(cast: Cast, options: CompareOptions, metric: Metric, asked: Mapping[str, Budget]) -> CompareResult:
    """Everything but files and seconds.

    Raises:
        UsageError: The data do not fit, or have no labels and the metric needs them.
        NativeCrash: A variant cannot be run in a process of its own.
    """
    told, causes = _answers(cast, options, metric)
    taken = _times(cast, options)
    feeds = cast.data.rows(1).inputs
    table = Table(metric, options.confidence, asked, options.provider, feeds, told.answers, taken)
    with step("look at files"):
        sites = _sites(cast)
        rows = [table.row(one) for one in cast.candidates]
    offered = [table.measured(one, row) for one, row in zip(cast.candidates, rows, strict=True) if one.may_ship]
    held = [gate for one in offered for gate in gates.hold(one, asked, options.confidence)]
    decision, verdict, reason = gates.decide(offered, held)
    return CompareResult(
        schema=SCHEMA,
        source=cast.model.line,
        twin="" if cast.twin is None else cast.twin.line,
        data=cast.data.judged.name,
        calibration=cast.data.said,
        rows=told.rows,
        labelled=told.labelled,
        metric=MetricResult(name=metric.name, higher_is_better=metric.higher_is_better, percent=metric.percent),
        confidence=options.confidence,
        variants=rows,
        gates=held,
        activation=_activation(cast, told, metric, options.confidence),
        waterfalls=causes,
        sites=sites,
        sensitivity=[
            SensitivityRanking(variant=one.name, layers=one.made["sensitivity"])
            for one in cast.candidates
            if one.made is not None and one.made["sensitivity"]
        ],
        machine=machine.here(),
        decision=decision,
        verdict=verdict,
        reason=reason,
        notes=[*cast.notes, *cast.data.notes, *_unscored(cast, told)],
        files=[],
        seconds={},
    )


def _answers(cast: Cast, options: CompareOptions, metric: Metric) -> tuple[Judged, list[WaterfallResult]]:
    """What all answer, and where the errors of the quantized ones come from; sessions are closed afterwards."""
    against = {one.name: one.against for one in cast.candidates}
    strangers = {one.name for one in cast.candidates if one.family == TWIN}
    with ExitStack() as stack:
        with step("load in the runtime"):
            opened = {one.name: one.opened(cast.ends, options.provider) for one in cast.candidates if one.runs}
            runs = {name: stack.enter_context(run) for name, run in opened.items()}
        with step("judge"):
            told = judged(runs, against, cast.data.judged, metric, cast.model.file.name, strangers)
        with step("look for causes"):
            causes = waterfalls(cast.candidates, runs, cast.originals, cast.ends, cast.data.judged, options.provider)
    return told, causes


def _times(cast: Cast, options: CompareOptions) -> dict[str, Latency]:
    """How long one row takes, of all that can be in a process of their own."""
    with step("time"):
        variants = [timed for one in cast.candidates if (timed := one.timed(options.provider)) is not None]
        feeds = cast.data.rows(1).inputs
        return latencies(variants, feeds, cast.model.file.name, options.time_budget, options.confidence)


def _sites(cast: Cast) -> list[SiteHistogram]:
    """Of each network, with the grids of what was quantized from it first."""
    found = list[SiteHistogram]()
    for network in cast.networks:
        one, integer = network.file, cast.integer(network)
        assert one.path is not None
        found += histograms(network.family, one.path, None if integer is None else integer.path, cast.judged(one))
    return found


def _activation(cast: Cast, told: Judged, metric: Metric, confidence: float) -> ActivationResult | None:
    """Model against twin, where both were quantized and there are scores of both."""
    if cast.twin is None:
        return None
    ours, theirs = cast.integer(cast.model), cast.integer(cast.twin)
    if ours is None or theirs is None or ours.precision != theirs.precision:
        return None
    answers = [told.answers[name] for name in (cast.model.file.name, ours.name, cast.twin.file.name, theirs.name)]
    scores = [one.scores for one in answers if one.scores is not None]
    if len(scores) < len(answers):
        return None
    pairs = Pair(cast.model.file.form, *scores[:2]), Pair(cast.twin.file.form, *scores[2:])
    return activation(ours.precision, *pairs, metric, confidence)


def _unscored(cast: Cast, told: Judged) -> list[str]:
    """What cannot be said without labels."""
    if told.labelled:
        return []
    if all(one.scores is None for one in told.answers.values()):
        return ["there are no labels and the answers are no classes: nothing is scored"]
    if cast.twin is not None and told.answers[cast.twin.file.name].scores is None:
        return ["without labels the twin has no score: the float model's own answers say nothing of another network's"]
    return []

"""A comparison as a person reads it: what each variant answers, what it costs, which budgets hold.

It knows the shape of the result and nothing of how it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from gelu_deploy.cli import layout
from gelu_deploy.results import CompareResult, Estimate, GateResult, LatencyResult, MetricResult, VariantResult

STYLES = {"pass": layout.GOOD, "fail": layout.BAD, "cannot tell": "bold yellow"}
ANSWERS = ["lost", "<lost:gained", "<same", "<KL", "<SQNR dB"]
COST = ["variant", "<size", "<p50", "<p90", "<p99 ms", "<of float", "<memory", "<integer", "kernels per GELU"]


def render(result: CompareResult) -> list[RenderableType]:
    """Everything but the verdict, which is added by who calls."""
    metric = result["metric"]
    header = ["variant", f"{metric['name']} ({result['confidence']:.0%})", *ANSWERS]
    parts: list[RenderableType] = [
        layout.facts(_facts(result)),
        layout.table(header, [_answers(one, metric) for one in result["variants"]]),
        layout.table(COST, [_cost(one) for one in result["variants"]]),
    ]
    told = [(one["name"], note) for one in result["variants"] for note in one["notes"]]
    parts += [layout.facts(told)] if told else []
    parts += [layout.facts([("activation", result["activation"]["sentence"])])] if result["activation"] else []
    parts += [_gates(result["gates"])] if result["gates"] else []
    return [*parts, layout.facts([("seconds", _seconds(result["seconds"]))])]


def _facts(result: CompareResult) -> Iterable[tuple[str, str]]:
    yield "source", result["source"]
    if result["twin"]:
        yield "twin", result["twin"]
    truth = "" if result["labelled"] else ", without labels: the float file's own answers count as right"
    yield "judged on", f"{layout.count(result['rows'], 'row')} of {result['data']}{truth}"
    yield "calibrated on", result["calibration"]
    yield "machine", "{cpu}, {threads} threads".format(**result["machine"])
    yield from (("" if place else "notes", note) for place, note in enumerate(result["notes"]))


def _answers(one: VariantResult, metric: MetricResult) -> tuple[str, ...]:
    score, gap = one["score"], one["difference"]
    counted = gap is not None and not math.isnan(gap["p"])
    return (
        one["name"],
        "-" if score is None else _estimate(score, percent=metric["percent"]),
        "-" if gap is None else _estimate(gap["loss"], percent=metric["percent"], signed=True),
        f"{gap['lost']}:{gap['gained']} (p {gap['p']:.2g})" if gap is not None and counted else "-",
        "-" if math.isnan(one["agreement"]) else f"{one['agreement']:.1%}",
        layout.number(one["kl"]),
        "-" if math.isnan(one["sqnr"]) else f"{one['sqnr']:.1f}",
    )


def _cost(one: VariantResult) -> tuple[str, ...]:
    return (
        one["name"],
        layout.size(one["bytes"]),
        *_times(one["latency"]),
        layout.size(one["memory"]),
        "-" if math.isnan(one["integer_share"]) else f"{one['integer_share']:.1%}",
        layout.counts(one["kernels"]),
    )


def _times(latency: LatencyResult | None) -> tuple[str, ...]:
    if latency is None:
        return ("-",) * 4
    times = (latency["p50"], latency["p90"], latency["p99"])
    return (*map(layout.number, times), f"{latency['ratio']['value']:.2f}")


def _gates(gates: list[GateResult]) -> RenderableType:
    rows = [(one["variant"], one["gate"], _marked(one["verdict"]), one["reason"]) for one in gates]
    return layout.table(["variant", "budget", "", "measured"], rows)


def _marked(verdict: str) -> Text:
    return Text("ok" if verdict == "pass" else verdict.upper(), style=STYLES[verdict])


def _estimate(one: Estimate, *, percent: bool, signed: bool = False) -> str:
    """``98.2 (96.5 to 99.1)``, in percent where it is a share."""
    values = [100 * value if percent else value for value in (one["value"], one["low"], one["high"])]
    sign = "+" if signed else ""
    middle, low, high = (f"{value:{sign}.2f}" if percent else f"{value:{sign}.4g}" for value in values)
    return f"{middle} ({low} to {high})"


def _seconds(steps: dict[str, float]) -> str:
    return ", ".join(f"{name} {took:.1f}" for name, took in steps.items() if took >= 0.05) or "-"

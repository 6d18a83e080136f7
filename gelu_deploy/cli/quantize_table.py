"""A quantized model as a person reads it: what runs in integers, what each layer cost, why it is not faster.

It knows the shape of the result and nothing of how it was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from rich.console import RenderableType

from gelu_deploy.cli import layout
from gelu_deploy.results import AccuracyResult, LayerResult, LobeResult, QuantizeResult, SensitivityResult

ROWS_SHOWN = 24
RANKED_SHOWN = 10
SCORE = "held-out SQNR with "


def render(result: QuantizeResult) -> list[RenderableType]:
    """Facts, layers, lobes and the ranking; the verdict is added by who calls."""
    parts: list[RenderableType] = [layout.facts(_facts(result)), *_layers(result["layers"])]
    parts += [_lobes(result["lobes"])] if result["lobes"] else []
    parts += [_ranking(result["sensitivity"])] if result["sensitivity"] else []
    return [*parts, layout.facts(_outcome(result))]


def _facts(result: QuantizeResult) -> list[tuple[str, str]]:
    return [
        ("source", result["source"]),
        ("precision", f"{result['precision']} for {result['target_cpu']}"),
        *_calibration(result["calibration"]),
        *(("" if place else "notes", note) for place, note in enumerate(result["notes"])),
    ]


def _calibration(said: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    if not said:
        return
    yield "calibration", f"{said['data']}, ranges by {said['method']}"
    scores = [f"{name.removeprefix(SCORE)} {text}" for name, text in said.items() if name.startswith(SCORE)]
    yield "", f"{SCORE}{', '.join(scores)}"


def _outcome(result: QuantizeResult) -> list[tuple[str, str]]:
    size, agreement = result["bytes"], result["agreement"]
    same = "" if math.isnan(agreement) else f", {agreement:.2%} of the answers the same"
    seconds = ", ".join(f"{name} {took:.1f}" for name, took in result["seconds"].items() if took >= 0.05)
    return [
        ("in integer kernels", f"{result['integer_share']:.1%} of the multiplications"),
        ("held-out data", f"SQNR {_decibels(result['sqnr'])} dB{same}"),
        *([("labelled data", _accuracy(result["accuracy"]))] if result["accuracy"] else []),
        *([("size", f"{layout.size(size['before'])} -> {layout.size(size['after'])}")] if size else []),
        *((("" if place else "what keeps it slow"), cause) for place, cause in enumerate(result["causes"])),
        *layout.tuned(result["runtime"]),
        *([("seconds", seconds)] if seconds else []),
    ]


def _accuracy(exam: AccuracyResult) -> str:
    return (
        f"{exam['before']:.2%} -> {exam['after']:.2%} of {exam['rows']}; lost {exam['lost']}, gained {exam['gained']} "
        f"(McNemar p = {exam['p']:.2g})"
    )


def _layers(layers: list[LayerResult]) -> list[RenderableType]:
    """The table, and below it why layers are not integer, each reason once."""
    rows = [
        (
            one["module"],
            one["op"],
            ", ".join(one["kernels"]) or "-",
            _decibels(one["sqnr_alone"]),
            _decibels(one["sqnr"]),
        )
        for one in _together(layers)
    ]
    reasons: dict[str, list[str]] = {}
    for one in layers:
        if one["reason"]:
            reasons.setdefault(one["reason"], []).append(one["module"])
    table = layout.table(["layer", "operator", "kernel", "<alone dB", "<in place dB"], rows)
    named = [(_named(modules), reason) for reason, modules in reasons.items()]
    return [table, layout.facts(named)] if named else [table]


def _named(modules: list[str]) -> str:
    return modules[0] if len(modules) == 1 else ", ".join(dict.fromkeys(map(_pattern, modules)))


def _together(layers: list[LayerResult]) -> list[LayerResult]:
    """Where they are many, layers that differ by the numbers in their name become one, with the lowest decibels."""
    if len(layers) <= ROWS_SHOWN:
        return layers
    groups: dict[tuple[str, ...], list[LayerResult]] = {}
    for one in layers:
        groups.setdefault((_pattern(one["module"]), one["op"], *one["kernels"], one["reason"]), []).append(one)
    return [_lowest(key[0], group) for key, group in groups.items()]


def _lowest(name: str, group: list[LayerResult]) -> LayerResult:
    if len(group) == 1:
        return group[0]
    alone, place = (min(one[key] for one in group) for key in ("sqnr_alone", "sqnr"))
    return {**group[0], "module": f"{name} ×{len(group)}", "sqnr_alone": alone, "sqnr": place}


def _pattern(module: str) -> str:
    return re.sub(r"\d+", "*", module)


def _lobes(lobes: list[LobeResult]) -> RenderableType:
    worst = sorted(lobes, key=lambda one: one["sqnr"])[:ROWS_SHOWN]
    rows = [(one["module"], str(one["codes_below_zero"]), _decibels(one["sqnr"])) for one in worst]
    return layout.table(["reads a GELU", "<codes below 0", "<negative lobe dB"], rows)


def _ranking(effects: list[SensitivityResult]) -> RenderableType:
    rows = [(one["module"] or one["node"], layout.number(one["kl"]), f"{one['agreement']:.1%}") for one in effects]
    return layout.table(["quantized alone, worst first", "<divergence", "<same answers"], rows[:RANKED_SHOWN])


def _decibels(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.1f}"

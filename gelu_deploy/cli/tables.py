"""A verb's result as a person reads it: rich renderables, nothing printed here.

It knows the shapes in ``results`` and neither how the numbers came about nor what they are shown on. Cells fold and
are never cut off; there are no rules and boxes, so that 60 columns, a pipe and a plain terminal read the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from gelu_deploy.cli import bench_table, compare_table, forms_table, layout, quantize_table, site_table, survey_table
from gelu_deploy.results import (
    CheckResult,
    CompareResult,
    DoctorResult,
    ExportResult,
    InspectResult,
    NearMiss,
    QuantizeResult,
    RunResult,
    Stage,
    Tensor,
)

CASES_SHOWN = 4


def render(result: Mapping[str, Any]) -> list[RenderableType]:
    """The parts of a result, to be printed one below the other; the verdict comes last."""
    verb = result["schema"].split("/")[1]
    return _RENDERERS[verb](result)


def _export(result: ExportResult) -> list[RenderableType]:
    facts = [
        ("source", result["source"]),
        *(("", note) for note in result["notes"]),
        ("export", f"{result['exporter']}, opset {result['opset']}, {result['provider']}"),
        *_choice(result),
        *_named("inputs", result["inputs"]),
        *_named("outputs", result["outputs"]),
        *_cases(result["cases"]),
        *layout.tuned(result.get("runtime", {})),
        *_seconds(result["seconds"]),
    ]
    return [
        layout.facts(facts),
        *site_table.render(result["sites"]),
        *_near_misses(result["near_misses"]),
        *_stages(result["stages"]),
        _verdict(result["verdict"], result["reason"], _written(result["files"]) + _dry(result)),
    ]


def _choice(result: ExportResult) -> list[tuple[str, str]]:
    """Why ``--form auto`` took what it took."""
    lines = result["choice"]["lines"] if "choice" in result else []
    return [("" if place else "form auto", line) for place, line in enumerate(lines)]


def _dry(result: ExportResult | QuantizeResult) -> str:
    return "" if result["files"] or result["verdict"] == "fail" else ", as --dry-run says"


def _inspect(result: InspectResult) -> list[RenderableType]:
    facts = [
        ("model", result["model"]),
        ("runs", f"opset {result['opset']}, {result['provider']}"),
        *(("", note) for note in result["notes"]),
    ]
    sites = result["sites"]
    single = sum(len(site["kernels"]) == 1 for site in sites)
    return [
        layout.facts(facts),
        *(site_table.render(sites) if sites else []),
        *_near_misses(result["near_misses"]),
        Text(
            f"{layout.count(len(sites), 'GELU site')}{f', {single} of them one kernel' if sites else ''}", style="bold"
        ),
    ]


def _check(result: CheckResult) -> list[RenderableType]:
    facts = [("model", result["model"]), ("runs", result["provider"]), *(("", note) for note in result["notes"])]
    return [
        layout.facts(facts),
        *(site_table.render(result["sites"]) if result["sites"] else []),
        *_stages(result["stages"]),
        _verdict(result["verdict"], result["reason"]),
    ]


def _run(result: RunResult) -> list[RenderableType]:
    facts = [("model", result["model"]), ("ran", f"{result['provider']}, {result['seconds']:.3f} s")]
    rows = [_tensor(tensor) for tensor in result["outputs"]]
    table = layout.table(["output", "shape", "dtype", "<minimum", "<maximum"], rows)
    return [layout.facts(facts), table, Text(_written(result["files"]))]


def _quantize(result: QuantizeResult) -> list[RenderableType]:
    files = _written(result["files"]) + _dry(result)
    return [*quantize_table.render(result), _verdict(result["verdict"], result["reason"], files)]


def _compare(result: CompareResult) -> list[RenderableType]:
    wrote, verdict = _written(result["files"]), result["verdict"]
    said = Text(f"{verdict if verdict == 'pass' else verdict.upper()}: {result['reason']}; {wrote}")
    said.stylize(compare_table.STYLES[verdict])
    return [*compare_table.render(result), said]


def _doctor(result: DoctorResult) -> list[RenderableType]:
    findings = result["findings"]
    rows = [(finding["name"], finding["found"], layout.mark(finding["ok"])) for finding in findings]
    advice = [(finding["name"], finding["advice"]) for finding in findings if finding["advice"]]
    parts: list[RenderableType] = [layout.table(["what", "found", ""], rows)]
    return [*parts, *([layout.facts(advice)] if advice else []), _verdict(result["verdict"], "")]


_RENDERERS: dict[str, Callable[[Any], list[RenderableType]]] = {
    "export": _export,
    "inspect": _inspect,
    "check": _check,
    "run": _run,
    "survey": survey_table.render,
    "quantize": _quantize,
    "compare": _compare,
    "bench": bench_table.render,
    "forms": forms_table.render,
    "doctor": _doctor,
}


def _near_misses(misses: list[NearMiss]) -> list[RenderableType]:
    if not misses:
        return []
    rows = [
        (miss["module"] or miss["output"], miss["form"], miss["reason"], layout.number(miss["error"]))
        for miss in misses
    ]
    return [layout.table(["near miss, left alone", "nearest", "why", "<error"], rows)]


def _stages(stages: list[Stage]) -> list[RenderableType]:
    if not stages:
        return []
    rows = [
        (
            stage["name"],
            layout.number(stage["max_abs"]),
            layout.number(stage["max_rel"]),
            layout.share(stage["ratio"]),
            stage["worst"],
            layout.mark(stage["passed"]),
        )
        for stage in stages
    ]
    return [layout.table(["stage", "<max abs", "<max rel", "<of limit", "worst", ""], rows)]


def _named(label: str, tensors: Mapping[str, str]) -> list[tuple[str, str]]:
    lines = [f"{name} {what}" for name, what in tensors.items()]
    return [(label if place == 0 else "", line) for place, line in enumerate(lines)]


def _cases(cases: list[dict[str, str]]) -> list[tuple[str, str]]:
    if not cases:
        return []
    lines = [" ".join(f"{name} {what}" for name, what in case.items()) for case in cases]
    more = f"; and {len(lines) - CASES_SHOWN} more" if len(lines) > CASES_SHOWN else ""
    return [("ran with", "; ".join(lines[:CASES_SHOWN]) + more)]


def _seconds(steps: Mapping[str, float]) -> list[tuple[str, str]]:
    longer = [f"{name} {seconds:.1f}" for name, seconds in steps.items() if seconds >= 0.05]
    return [("seconds", ", ".join(longer))] if longer else []


def _tensor(tensor: Tensor) -> tuple[str, ...]:
    shape = "x".join(str(size) for size in tensor["shape"]) or "scalar"
    return (tensor["name"], shape, tensor["dtype"], f"{tensor['minimum']:.6g}", f"{tensor['maximum']:.6g}")


def _written(files: list[str]) -> str:
    return f"wrote {', '.join(files)}" if files else "nothing written"


def _verdict(verdict: str, reason: str, files: str = "") -> Text:
    passed = verdict == "pass"
    rest = "; ".join(part for part in (reason, files) if part)
    return Text(
        f"{verdict if passed else verdict.upper()}{': ' if rest else ''}{rest}",
        style=layout.GOOD if passed else layout.BAD,
    )

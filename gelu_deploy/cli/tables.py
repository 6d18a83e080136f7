"""A verb's result as a person reads it: rich renderables, nothing printed here.

It knows the shapes in ``results.py`` and neither how the numbers came about nor what they are shown on. Cells fold and
are never cut off; there are no rules and boxes, so that 60 columns, a pipe and a plain terminal read the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gelu_deploy.cli.cell import Cell
from gelu_deploy.results import (
    CheckResult,
    DoctorResult,
    ExportResult,
    InspectResult,
    NearMiss,
    RunResult,
    SiteResult,
    Stage,
    Tensor,
)

SITES_SHOWN = 24
CASES_SHOWN = 4
KERNELS_SHOWN = 2

GOOD, BAD, QUIET = "green", "bold red", "dim"


def render(result: Mapping[str, Any]) -> list[RenderableType]:
    """The parts of a result, to be printed one below the other; the verdict comes last."""
    verb = result["schema"].split("/")[1]
    return _RENDERERS[verb](result)


def _export(result: ExportResult) -> list[RenderableType]:
    facts = [
        ("source", result["source"]),
        *(("", note) for note in result["notes"]),
        ("export", f"{result['exporter']}, opset {result['opset']}, {result['provider']}"),
        *_named("inputs", result["inputs"]),
        *_named("outputs", result["outputs"]),
        *_cases(result["cases"]),
        *_seconds(result["seconds"]),
    ]
    return [
        _facts(facts),
        *_sites(result["sites"]),
        *_near_misses(result["near_misses"]),
        *_stages(result["stages"]),
        _verdict(result["verdict"], result["reason"], _written(result["files"]) + _dry(result)),
    ]


def _dry(result: ExportResult) -> str:
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
        _facts(facts),
        *(_sites(sites) if sites else []),
        *_near_misses(result["near_misses"]),
        Text(f"{_count(len(sites), 'GELU site')}{f', {single} of them one kernel' if sites else ''}", style="bold"),
    ]


def _check(result: CheckResult) -> list[RenderableType]:
    facts = [("model", result["model"]), ("runs", result["provider"]), *(("", note) for note in result["notes"])]
    return [
        _facts(facts),
        *(_sites(result["sites"]) if result["sites"] else []),
        *_stages(result["stages"]),
        _verdict(result["verdict"], result["reason"]),
    ]


def _run(result: RunResult) -> list[RenderableType]:
    facts = [("model", result["model"]), ("ran", f"{result['provider']}, {result['seconds']:.3f} s")]
    rows = [_tensor(tensor) for tensor in result["outputs"]]
    table = _table(["output", "shape", "dtype", "<minimum", "<maximum"], rows)
    return [_facts(facts), table, Text(_written(result["files"]))]


def _doctor(result: DoctorResult) -> list[RenderableType]:
    findings = result["findings"]
    rows = [(finding["name"], finding["found"], _mark(finding["ok"])) for finding in findings]
    advice = [(finding["name"], finding["advice"]) for finding in findings if finding["advice"]]
    parts: list[RenderableType] = [_table(["what", "found", ""], rows)]
    return [*parts, *([_facts(advice)] if advice else []), _verdict(result["verdict"], "")]


_RENDERERS: dict[str, Callable[[Any], list[RenderableType]]] = {
    "export": _export,
    "inspect": _inspect,
    "check": _check,
    "run": _run,
    "doctor": _doctor,
}


class _Row(NamedTuple):
    """One line of the table of sites."""

    module: str
    form: str
    spelling: str
    kernel: str
    error: float


def _sites(sites: list[SiteResult]) -> list[RenderableType]:
    if not sites:
        return [Text("No GELU found.\n")]
    rows = [_row(site) for site in sites]
    if len(rows) > SITES_SHOWN:
        rows = _grouped(rows)
    table = _table(
        ["module", "form", "spelling", "kernel", "<error"],
        [(*row[:4], _number(row.error)) for row in rows],
    )
    return [table, *_reasons(sites)]


def _row(site: SiteResult) -> _Row:
    found, written = site.get("found"), site.get("written")
    before, after = found or site, written or site
    return _Row(
        site["module"] or site["output"],
        _change(_form(before), _form(after)),
        _change(before["spelling"], after["spelling"]),
        _kernels(site["kernels"]),
        site["error"],
    )


def _form(writing: Mapping[str, Any]) -> str:
    alpha = writing.get("alpha")
    return writing["form"] if alpha is None else f"{writing['form']} {alpha:g}"


def _change(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _kernels(kernels: list[str]) -> str:
    more = f" +{len(kernels) - KERNELS_SHOWN}" if len(kernels) > KERNELS_SHOWN else ""
    return ", ".join(kernels[:KERNELS_SHOWN]) + more if kernels else "-"


def _grouped(rows: list[_Row]) -> list[_Row]:
    """Rows that differ by the numbers in their module's name only become one, with the largest error."""
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault((_pattern(row.module), *row[1:4]), []).append(row)
    return [
        members[0]
        if len(members) == 1
        else members[0]._replace(module=f"{key[0]} ×{len(members)}", error=max(row.error for row in members))
        for key, members in groups.items()
    ]


def _pattern(module: str) -> str:
    return re.sub(r"\d+", "*", module)


def _reasons(sites: list[SiteResult]) -> list[RenderableType]:
    """Why a site is not as one would expect, each reason once with the modules that it holds for."""
    modules: dict[str, list[str]] = {}
    for site in sites:
        if site["reason"]:
            modules.setdefault(site["reason"], []).append(site["module"] or site["output"])
    return [_facts((_together(names), reason) for reason, names in modules.items())] if modules else []


def _together(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(dict.fromkeys(_pattern(name) for name in names))


def _near_misses(misses: list[NearMiss]) -> list[RenderableType]:
    if not misses:
        return []
    rows = [(miss["module"] or miss["output"], miss["form"], miss["reason"], _number(miss["error"])) for miss in misses]
    return [_table(["near miss, left alone", "nearest", "why", "<error"], rows)]


def _stages(stages: list[Stage]) -> list[RenderableType]:
    if not stages:
        return []
    rows = [
        (
            stage["name"],
            _number(stage["max_abs"]),
            _number(stage["max_rel"]),
            _share(stage["ratio"]),
            stage["worst"],
            _mark(stage["passed"]),
        )
        for stage in stages
    ]
    return [_table(["stage", "<max abs", "<max rel", "<of limit", "worst", ""], rows)]


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
    return Text(f"{verdict if passed else verdict.upper()}{': ' if rest else ''}{rest}", style=GOOD if passed else BAD)


def _mark(passed: bool) -> Text:
    return Text("ok", style=GOOD) if passed else Text("FAIL", style=BAD)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _number(value: float | None) -> str:
    """Few digits, ``1.2e-7`` or ``0.125``; a dash for what was not measured."""
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or 0.1 <= abs(value) < 1000:
        return f"{value:.3g}"
    return re.sub(r"e([+-])0+", r"e\1", f"{value:.1e}")


def _share(ratio: float) -> str:
    """How much of the tolerance was used: per cent of it, or how many times it; nothing where there is none."""
    if math.isnan(ratio):
        return "-"
    if 0 < ratio < 0.01:
        return "<1%"
    return f"{ratio:.0%}" if ratio < 10 else f"{_number(ratio)} ×"


def _facts(facts: Iterable[tuple[str, str]]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style=QUIET, overflow="fold", max_width=24)
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(Cell(label), Cell(text))
    return Padding(grid, (0, 0, 1, 0))


def _table(headers: list[str], rows: Iterable[tuple[str | Text, ...]]) -> RenderableType:
    """Columns under headers; ``<`` before a header sets its column to the right, the first column folds first."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for header in headers:
        right: Literal["right", "left"] = "right" if header.startswith("<") else "left"
        table.add_column(Text(header.removeprefix("<")), justify=right, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Cell(cell) for cell in row))
    return Padding(table, (0, 0, 1, 0))

"""A comparison as Markdown, in the flavour of GitHub: the numbers of the page without its pictures.

It knows nothing of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gelu_deploy.report import bars, words
from gelu_deploy.report.columns import columns
from gelu_deploy.results import CompareResult, GateResult, SensitivityRanking, SiteHistogram, WaterfallResult

MARKS = {"pass": "✓", "fail": "✗", "cannot tell": "?"}


def text(result: CompareResult) -> str:
    """The whole document."""
    verdict = words.VERDICTS[words.verdict(result)]
    parts = [
        f"# {verdict}: {escaped(words.headline(result))}",
        escaped(result["reason"]),
        _gates(result),
        "## Variants",
        _variants(result),
        _bullets(f"{code(one['name'])}: {escaped(note)}" for one in result["variants"] for note in one["notes"]),
        *_section("The model against its twin", _twin(result)),
        *_section("Where the error comes from", *map(_waterfall, result["waterfalls"])),
        *_section("What the 8-bit grid leaves of each activation", _sites(result["sites"])),
        *_section("Layers, worst first", *map(_ranking, result["sensitivity"])),
        "## How it was measured",
        _method(result),
        *_section("Notes", _bullets(map(escaped, result["notes"]))),
        *_section("Files", _bullets(map(code, result["files"]))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown and HTML in it leave as it is, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>&|#~$]|:(?=//))", r"\\\1", _line(text))


def code(text: str) -> str:
    """A name as code, on one line, whatever it holds."""
    line = _line(text).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}" if line else ""


def _line(text: str) -> str:
    return " ".join(text.split())


def _table(headers: list[str], rows: Iterable[list[str]]) -> str:
    """``>`` before a header sets its column to the right."""
    marks = ["---:" if header.startswith(">") else "---" for header in headers]
    lines = [[header.removeprefix(">") for header in headers], marks, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _section(title: str, *parts: str) -> list[str]:
    """The parts under their title, or nothing where there are none."""
    return [f"## {title}", *parts] if any(parts) else []


def _gates(result: CompareResult) -> str:
    def line(gate: GateResult) -> str:
        verdict = f"{MARKS[gate['verdict']]} **{words.VERDICTS[gate['verdict']]}**"
        return f"{verdict} {code(gate['variant'])} {code(gate['gate'])}: {escaped(gate['reason'])}"

    return _bullets(map(line, result["gates"]))


def _variants(result: CompareResult) -> str:
    shown = columns(result["metric"])
    headers = ["variant", *(f"{'>' if one.number else ''}{one.header}" for one in shown)]
    return _table(headers, ([code(one["name"]), *("<br>".join(map(escaped, column.lines(one))) for column in shown)]
                            for one in result["variants"]))  # fmt: skip


def _twin(result: CompareResult) -> str:
    return escaped(result["activation"]["sentence"]) if result["activation"] else ""


def _waterfall(one: WaterfallResult) -> str:
    title = (
        f"{code(one['variant'])}: SQNR {words.decibels(one['sqnr'])}, the answers of {one['flips']:,} rows are others."
    )
    steps = bars.waterfall(one).steps
    rows = [
        [escaped(step.name), words.share(step.share), words.fixed(step.sqnr, 1), f"{step.flips:,}"]
        for step in steps
    ]  # fmt: skip
    return f"{title}\n\n{_table(['cause', '>of the error', '>SQNR after it, dB', '>answers changed'], rows)}"


def _sites(sites: list[SiteHistogram]) -> str:
    headers = ["module", "of", "activation", ">codes below zero", ">negative lobe, dB", ">above 0.01", ">below zero"]
    rows = [
        [
            code(one["module"]),
            escaped(one["family"]),
            escaped(one["activation"]),
            f"{one['codes_below_zero']}" if one["grid"] else words.DASH,
            words.fixed(one["lobe_sqnr"], 1),
            words.share(one["effective"]),
            words.share(one["negative"]),
        ]
        for one in sites
    ]
    return _table(headers, rows) if rows else ""


def _ranking(one: SensitivityRanking) -> str:
    rows = [
        [code(layer["module"] or layer["node"]), words.figures(layer["kl"], 2), words.share(layer["agreement"])]
        for layer in one["layers"][: bars.RANKED]
    ]
    if not rows:
        return ""
    table = _table(["layer quantized alone", ">KL, nats", ">same answers"], rows)
    return f"{code(one['variant'])}, {len(rows)} of {len(one['layers'])} layers that were tried\n\n{table}"


def _method(result: CompareResult) -> str:
    return _table(["", ""], ([escaped(label), escaped(said)] for label, said in words.method(result)))

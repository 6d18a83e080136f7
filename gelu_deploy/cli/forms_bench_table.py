"""Times of the forms as a person reads them; it knows the shape of the result and nothing of how time was taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import RenderableType

from gelu_deploy.cli import layout
from gelu_deploy.results import ClaimResult, FormResult, FormsBenchResult, FormsBenchRow

KERNEL = "PyTorch"
"""The engine of the articles' own table."""
CLAIMS = ["the articles' claim", "where", "<said", "<here", "<rounds"]
LEGEND = [
    ("of a copy", "time of a copy of the same tensor on the same engine over the form's; 100% is the memory's speed"),
    ("memory", "the most its process held beyond what it held before, tensors and libraries"),
]


def render(bench: FormsBenchResult, forms: list[FormResult]) -> list[RenderableType]:
    """One table for each measure, then the articles' table and claims."""
    rows, count = bench["rows"], "x".join(map(str, bench["shape"]))
    facts = [
        (f"timed on {count}", ", ".join(f"{name} {what}" for name, what in bench["machine"].items())),
        *(("", note) for note in bench["notes"]),
    ]
    return [
        layout.facts(facts),
        *_tables(rows),
        layout.facts(LEGEND),
        *_articles(rows, forms),
        layout.table(CLAIMS, [_claim(one) for one in bench["claims"]]),
    ]


def _tables(rows: list[FormsBenchRow]) -> Iterator[RenderableType]:
    if not rows:
        return
    yield _table("ns/element", rows, lambda row: _three(row["nanoseconds"]))
    yield _table("of a copy", rows, lambda row: layout.share(row["bandwidth"]))
    yield _table("memory", rows, lambda row: layout.size(row["memory"]))


def _table(what: str, rows: list[FormsBenchRow], shown: Callable[[FormsBenchRow], str]) -> RenderableType:
    """Forms and spellings down, engines across."""
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    cells = {(row["form"], row["spelling"], row["engine"]): shown(row) for row in rows}
    lines = dict.fromkeys((row["form"], row["spelling"]) for row in rows)
    order = {form: place for place, form in enumerate(dict.fromkeys(form for form, _ in lines))}
    body = [
        (form, spelling, *(cells.get((form, spelling, engine), "") for engine in engines))
        for form, spelling in sorted(lines, key=lambda line: order[line[0]])
    ]
    return layout.table([what, "", *(f"<{engine}" for engine in engines)], body)


def _three(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _articles(rows: list[FormsBenchRow], forms: list[FormResult]) -> list[RenderableType]:
    """Largest error, time and memory, as the articles have them."""
    errors = {form["name"]: form["absolute"]["value"] for form in forms}
    body = [
        (row["form"], layout.number(errors[row["form"]]), f"{row['milliseconds']:.3f}", layout.size(row["memory"]))
        for row in rows
        if row["engine"] == KERNEL and row["form"] in errors
    ]
    return [layout.table([f"{KERNEL}, as in the articles", "<largest error", "<ms", "<memory"], body)] if body else []


def _claim(one: ClaimResult) -> tuple[str, ...]:
    if not one["percent"]:
        return (one["claim"], one["where"], layout.number(one["said"]), layout.number(one["measured"]), "")
    said, measured, low, high = (f"{one[name]:.0%}" for name in ("said", "measured", "low", "high"))
    return (one["claim"], one["where"], said, measured, f"{low} to {high}")

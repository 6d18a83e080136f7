"""What every table is made of: columns, facts beside their names, numbers in few digits.

It knows rich and nothing of results.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gelu_deploy.cli.cell import Cell

GOOD, BAD, QUIET = "green", "bold red", "dim"


def mark(passed: bool) -> Text:
    """``ok`` or ``FAIL``."""
    return Text("ok", style=GOOD) if passed else Text("FAIL", style=BAD)


def count(number: int, what: str) -> str:
    """``3 GELU sites``, ``1 GELU site``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def number(value: float | None) -> str:
    """Few digits, ``1.2e-7`` or ``0.125``; a dash for what was not measured."""
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or 0.1 <= abs(value) < 1000:
        return f"{value:.3g}"
    return re.sub(r"e([+-])0+", r"e\1", f"{value:.1e}")


def share(ratio: float) -> str:
    """How much of the tolerance was used: per cent of it, or how many times it; nothing where there is none."""
    if math.isnan(ratio):
        return "-"
    if 0 < ratio < 0.01:
        return "<1%"
    return f"{ratio:.0%}" if ratio < 10 else f"{number(ratio)} ×"


def size(count: float) -> str:
    """Bytes as ``1.2 kB`` or ``34.5 MB``; a dash for none."""
    if math.isnan(count) or count <= 0:
        return "-"
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def counts(found: Mapping[str, int]) -> str:
    """``Gelu ×12, FastGelu``; a dash for nothing."""
    return ", ".join(f"{name} ×{number}" if number > 1 else name for name, number in found.items()) or "-"


def tuned(runtime: Mapping[str, str]) -> list[tuple[str, str]]:
    """The settings of the runtime that were taken, and what they gain."""
    told = {name: text for name, text in runtime.items() if not name.startswith("tried")}
    return [("runtime" if name == "settings" else f"runtime {name}", text) for name, text in told.items()]


def facts(facts: Iterable[tuple[str, str]]) -> RenderableType:
    """Labels and what there is to say of each; an empty label goes on with the one before."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style=QUIET, overflow="fold", max_width=24)
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(Cell(label), Cell(text))
    return Padding(grid, (0, 0, 1, 0))


def table(headers: list[str], rows: Iterable[tuple[str | Text, ...]]) -> RenderableType:
    """Columns under headers; ``<`` before a header sets its column to the right, the first column folds first."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for header in headers:
        right: Literal["right", "left"] = "right" if header.startswith("<") else "left"
        table.add_column(Text(header.removeprefix("<")), justify=right, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Cell(cell) for cell in row))
    return Padding(table, (0, 0, 1, 0))

"""The coverage table in the docs is about these spellings, and what it says of this project is so."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spellings import NEGATIVES, POSITIVES

OURS, FIRST = "gelu_deploy", 2


@pytest.fixture(scope="module")
def script(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "scripts" / "coverage"))


@pytest.fixture(scope="module")
def table(root: Path) -> list[list[str]]:
    """Heading, rows and totals as they are committed."""
    return list(_table((root / "docs" / "coverage.md").read_text()))


def _table(page: str) -> Iterator[list[str]]:
    _, _, after = page.partition("| number |")
    for line in f"| number |{after}".splitlines():
        if not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_every_spelling_has_its_row(script: dict[str, Any], table: list[list[str]]) -> None:
    names = [one.name for one in POSITIVES] + [name for name, _ in NEGATIVES]
    assert [case.name for case in script["cases"]()] == names
    assert [tuple(line[:FIRST]) for line in table[1:-1]] == [script["titles"](case) for case in script["cases"]()]


def test_we_find_every_spelling_and_leave_every_look_alike(script: dict[str, Any], table: list[list[str]]) -> None:
    rows = script["cases"]()
    now = script["one_by_one"](script["ours"], rows)
    assert now == ["yes"] * len(POSITIVES) + ["left"] * len(NEGATIVES)
    assert [line[table[0].index(OURS)] for line in table[1:-1]] == now


def test_a_cell_is_what_a_tool_made_of_the_graph(script: dict[str, Any]) -> None:
    rows = script["cases"]()
    spelled, look_alike = rows[0], rows[-1]
    assert script["one_by_one"](lambda model: model, [spelled, look_alike]) == ["no", "left"]
    assert [spelled.cell(forms) for forms in ([], ["erf"], ["tanh"])] == ["no", "yes", "wrong"]
    assert spelled.cell(["erf"], rest=True) == "no"
    assert look_alike.cell(["erf"]) == "taken"


def test_the_totals_are_those_of_the_columns(script: dict[str, Any], table: list[list[str]]) -> None:
    *rows, totals = table[1:]
    assert len(table[0]) > FIRST + 1
    for column in range(FIRST, len(table[0])):
        assert totals[column] == script["total"]([row[column] for row in rows])

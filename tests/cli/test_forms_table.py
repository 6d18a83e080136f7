"""The forms as a person reads them, at 80 columns: the rows are numbers, which do not fold well below."""

from __future__ import annotations

import io
from typing import Any

import pytest
from forms_sample import measured, timed
from rich.console import Console

from gelu_deploy.cli import tables
from gelu_deploy.results import FormsResult


@pytest.fixture(scope="module")
def result() -> FormsResult:
    return measured()


def text(result: FormsResult, columns: int) -> str:
    page = io.StringIO()
    console = Console(file=page, width=columns, highlight=False)
    for part in tables.render(result):
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def test_golden(result: FormsResult, golden: Any) -> None:
    shown = text(result, 80)
    assert max(map(len, shown.splitlines())) <= 80
    golden("forms_80.txt", shown)


def test_golden_with_times(golden: Any) -> None:
    shown = text(timed(), 80)
    assert max(map(len, shown.splitlines())) <= 80
    golden("forms_bench_80.txt", shown[shown.index("timed on") :])


def test_every_row_is_one_line_of_80_columns(result: FormsResult) -> None:
    first = [line.split()[0] for line in text(result, 80).splitlines() if line and not line.startswith(" ")]
    spelled = sum(len(form["spellings"]) for form in result["forms"])
    names = [form["name"] for form in result["forms"]]
    assert sum(word in names for word in first) == len(names) + 2 * spelled

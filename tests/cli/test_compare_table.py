"""A comparison as a person reads it in a terminal, wide and narrow."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from compare_sample import comparison, large
from rich.console import Console

from gelu_deploy.cli import tables
from gelu_deploy.results import CompareResult


def text(result: CompareResult, columns: int) -> str:
    console = Console(file=io.StringIO(), width=columns, force_terminal=False)
    for part in tables.render(result):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]  # it is the StringIO


@pytest.mark.parametrize("columns", [60, 100, 160])
@pytest.mark.parametrize("sample", [comparison, large])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut_off(
    columns: int, sample: Callable[[], CompareResult]
) -> None:
    shown = text(sample(), columns)
    assert max(map(len, shown.splitlines())) <= columns
    assert "…" not in shown


def test_every_variant_and_budget_has_its_row_and_the_verdict_comes_last() -> None:
    result = comparison()
    shown = text(result, 240)
    for one in result["variants"]:
        assert len([line for line in shown.splitlines() if line.startswith(one["name"] + " ")]) >= 2
    for gate in result["gates"]:
        mark = "ok" if gate["verdict"] == "pass" else gate["verdict"].upper()
        start = f"{gate['variant']} "
        row = next(line for line in shown.splitlines() if line.startswith(start) and f" {gate['gate']} " in line)
        assert f" {mark} " in row
    verdict = result["verdict"] if result["verdict"] == "pass" else result["verdict"].upper()
    assert f"\n{verdict}: " in shown


def test_what_was_not_measured_is_a_dash() -> None:
    result = comparison()
    for one in result["variants"]:
        one["latency"], one["score"], one["difference"] = None, None, None
        one["sqnr"] = one["kl"] = one["agreement"] = one["integer_share"] = float("nan")
        one["memory"], one["kernels"] = 0, {}
    assert "nan" not in text(result, 200).partition("budget")[0]

"""The survey in the docs is of these networks, and its numbers can be had again."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def script(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "scripts" / "survey"))


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "survey.md").read_text(encoding="utf-8")


def section(page: str, title: str) -> list[list[str]]:
    """Cells of the table under a heading, without its own."""
    lines = page.partition(f"## {title}")[2].partition("\n## ")[0].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return table[2:]


def test_what_is_computed_alone_is_what_the_page_says(script: dict[str, Any], page: str) -> None:
    for lines in (script["gains"](), script["rates"]()):
        assert "\n".join(lines) in page


def test_all_networks_are_there_each_time(script: dict[str, Any], page: str) -> None:
    names = [script["titled"](*twin) for twin in (("gelu", 1), ("gelu", 0), ("relu", 1), ("relu", 0))]
    for title in ("Trained\n", "Before training", "Trained, pixels 10 times as large"):
        assert [row[0] for row in section(page, title)] == [name for name in names for _ in range(4)]


def test_the_claims_stand_on_the_tables(page: str) -> None:
    """LayerNorm holds the inputs where they are, whatever the images; without it they spread from block to block."""
    std, effective = 4, 5
    spread = dict[tuple[str, str], list[float]]()
    for title in ("Trained\n", "Trained, pixels 10 times as large"):
        for row in section(page, title):
            spread.setdefault((title, row[0]), []).append(float(row[std]))
    for title in ("Trained\n", "Trained, pixels 10 times as large"):
        assert max(spread[title, "GELU, LayerNorm"]) < 1
        assert sorted(spread[title, "GELU, no LayerNorm"]) == spread[title, "GELU, no LayerNorm"]
        assert spread[title, "GELU, no LayerNorm"][-1] > 2
    rates = [float(row[effective].rstrip(" %")) for row in section(page, "Trained\n")]
    assert not [rate for rate in rates if 60 <= rate <= 80]


@pytest.mark.slow
def test_the_numbers_can_be_had_again(script: dict[str, Any], page: str, tmp_path: Path, root: Path) -> None:
    with np.load(root / "models" / "digits_test.npz") as data:
        images = data["x"]
    again = list(script["table"](script["surveyed"](tmp_path, images, trained=True)))[2:]
    for mine, theirs in zip(again, section(page, "Trained\n"), strict=True):
        cells = [cell.strip() for cell in mine.strip("|").split("|")]
        assert cells[:2] == theirs[:2]
        *got, codes = (float(cell.rstrip(" %")) for cell in cells[2:])
        *expected, wanted = (float(cell.rstrip(" %")) for cell in theirs[2:])
        assert got == pytest.approx(expected, rel=0.02, abs=0.15)
        assert codes == pytest.approx(wanted, abs=1)

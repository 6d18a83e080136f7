"""Where a module name breaks when its column is narrow."""

from __future__ import annotations

import pytest
from rich.console import Console

from gelu_deploy.cli.cell import Cell


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (60, ["encoder.layer.0.intermediate.act_fn took 1.5e-8"]),
        (30, ["encoder.layer.0.intermediate.", "act_fn took 1.5e-8"]),
        (16, ["encoder.layer.0.", "intermediate.", "act_fn took", "1.5e-8"]),
        (8, ["encoder.", "layer.0.", "intermed", "iate.", "act_fn", "took", "1.5e-8"]),
    ],
)
def test_names_break_after_a_dot(width: int, lines: list[str]) -> None:
    wrapped = Cell("encoder.layer.0.intermediate.act_fn took 1.5e-8").wrap(Console(), width, overflow="fold")
    assert [line.plain.rstrip() for line in wrapped] == lines

"""The comparison as Markdown."""

from __future__ import annotations

import re

import pytest
from compare_sample import HOSTILE, comparison, large
from conftest import Golden

from gelu_deploy.report import markdown


def test_all_of_it(golden: Golden) -> None:
    golden("report.md", markdown.text(comparison()))


def test_tables_have_as_many_cells_in_each_row() -> None:
    for result in (comparison(), large()):
        for table in re.findall(r"(?:^\|.*\n)+", markdown.text(result), flags=re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table


def test_parts_that_are_not_there_have_no_heading() -> None:
    bare = comparison(activation=None, waterfalls=[], sites=[], sensitivity=[], notes=[], files=[], gates=[])
    headings = re.findall(r"^##? .*", markdown.text(bare), flags=re.MULTILINE)
    assert headings == ["# NO BUDGET: Nothing is decided", "## Variants", "## How it was measured"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.b", "`a.b`"),
        ("a|b", "`a\\|b`"),
        ("a`b", "``a`b``"),
        ("`a", "`` `a ``"),
        ("a\nb", "`a b`"),
        ("<b>", "`<b>`"),
        ("", ""),
    ],
)
def test_names_are_code(text: str, said: str) -> None:
    assert markdown.code(text) == said


def test_nothing_in_a_text_is_taken_for_markup() -> None:
    escaped = markdown.escaped(HOSTILE + "\n# two")
    assert "\n" not in escaped
    assert not re.search(r"(?<!\\)[`*_<>|\[\]#]", escaped)
    assert escaped.replace("\\", "") == HOSTILE + " # two"

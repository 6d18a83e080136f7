"""The page of the forms: well formed, alone, and the numbers of the result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forms_sample import ROWS, measured, timed
from html_pages import Element, read

import gelu_deploy
from gelu_deploy.errors import OutputError
from gelu_deploy.report import forms, words


@pytest.fixture(scope="module")
def page() -> Element:
    return read(forms.html(timed()))


@pytest.mark.parametrize("result", [measured, timed])
def test_it_needs_nothing_but_itself(result: object) -> None:
    assert callable(result)
    document = read(forms.html(result()))
    assert not {one.tag for one in document.inside} & {"script", "iframe", "img", "object"}
    ids = {one.attributes["id"] for one in document.inside if "id" in one.attributes}
    anchors = [one.attributes["href"].removeprefix("#") for one in document.inside if one.tag == "a"]
    assert {*anchors} == ids
    for one in document.inside:
        if one.tag == "table":
            assert any(part.tag == "caption" and part.text for part in one.inside)


def test_every_form_and_every_spelling_has_its_row(page: Element) -> None:
    errors, operators = page.one(id="errors"), page.one(id="operators")
    for form in timed()["forms"]:
        (row,) = errors.find(data_form=form["name"])
        assert row.one(data_part="largest").text == words.fixed(form["absolute"]["value"], 7)
        assert ("reference only" in row.text) is not form["offered"]
        for spelling in form["spellings"]:
            assert len(operators.find(data_form=form["name"], data_spelling=spelling["name"])) == 1


def test_bars_are_as_long_as_times(page: Element) -> None:
    runtime = page.one(data_engine="ONNX Runtime")
    styles = [one.attributes["style"] for one in runtime.inside if one.tag == "rect"]
    widths = [float(text) for style in styles for text in re.findall(r"([\d.]+)%", style)]
    rows = [row["nanoseconds"] for row in ROWS if row["engine"] == "ONNX Runtime"]
    assert widths == pytest.approx([100 * one / max(rows) for one in rows], abs=0.01)
    assert page.one(data_engine="ORT unfused").find(data_form="tanh")[0].one(data_part="nanoseconds").text == "1.50"


def test_claims_and_notes_are_told(page: Element) -> None:
    (claim,) = [one for one in page.one(id="claims").inside if "PyTorch, gelu" in one.text and one.tag == "tr"]
    assert claim.one(data_part="measured").text == "25%"
    assert "Other is left out: it is not installed" in page.one(id="method").text


def test_forms_writes_it_in_place_of_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "forms.html"
    file.write_text("old")
    result = gelu_deploy.forms(html=file)
    assert result["files"] == [str(file)]
    assert read(file.read_text(encoding="utf-8")).one(id="errors")
    assert [one.name for one in tmp_path.iterdir()] == ["forms.html"]
    with pytest.raises(OutputError):
        gelu_deploy.forms(html=tmp_path / "nowhere" / "forms.html")

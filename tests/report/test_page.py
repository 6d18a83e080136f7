"""The page as text: well formed, alone, escaped, readable; what it looks like is the matter of test_browser.py."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from compare_sample import HOSTILE, comparison, estimate, large, variant
from html_pages import Element, read

from gelu_deploy.report import page
from gelu_deploy.results import CompareResult, MetricResult

TEMPLATES = Path(page.__file__).parent / "templates"
PERPLEXITY = MetricResult(name="perplexity", higher_is_better=False, percent=False)
NOTHING: dict[str, Any] = {
    "activation": None, "waterfalls": [], "sites": [], "sensitivity": [], "notes": [], "files": [], "twin": "",
    "machine": {}, "seconds": {},
}  # fmt: skip
UNTIMED = [variant(name, score=None, difference=None, latency=None) for name in ("float", "int8")]
RESULTS = {
    "all": comparison(),
    "large": large(),
    "perplexity": comparison(metric=PERPLEXITY),
    "nothing": comparison(**NOTHING, variants=UNTIMED, gates=[], reason=""),
    "no decision": comparison(decision="", gates=[]),
}


@pytest.fixture(scope="module", params=RESULTS, ids=str)
def document(request: pytest.FixtureRequest) -> Element:
    return read(page.html(RESULTS[request.param]))


@pytest.fixture(scope="module")
def whole() -> Element:
    return read(page.html(RESULTS["all"]))


def test_ids_are_unique_and_what_refers_to_them_finds_them(document: Element) -> None:
    ids = [one.attributes["id"] for one in document.inside if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    named = [name for one in document.inside for name in one.attributes.get("aria-labelledby", "").split()]
    anchors = [one.attributes["href"].removeprefix("#") for one in document.inside if one.tag == "a"]
    assert {*named, *anchors} <= set(ids)


def test_nothing_is_fetched_or_run(document: Element) -> None:
    assert not {one.tag for one in document.inside} & {"script", "iframe", "img", "object", "embed", "form", "base"}
    attributes = [pair for one in document.inside for pair in one.attributes.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in {"src", "srcset", "action", "xmlns"}]
    assert all(value.startswith("#") or value == "data:," for name, value in attributes if name.endswith("href"))
    (style,) = [one.text for one in document.inside if one.tag == "style"]
    assert not re.search(r"url\(|@import|http|//", style)
    (policy,) = [one for one in document.inside if one.attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy.attributes["content"].startswith("default-src 'none';")


def test_pictures_and_tables_say_what_they_are(document: Element) -> None:
    for one in document.inside:
        if one.tag == "table":
            assert any(part.tag == "caption" and part.text for part in one.inside)
        if one.tag == "svg" and one.attributes.get("class") != "spot" and "viewbox" not in one.attributes:
            assert {"aria-label", "aria-labelledby", "aria-hidden"} & one.attributes.keys()


def test_headings_go_down_one_by_one(document: Element) -> None:
    levels = [int(one.tag[1]) for one in document.inside if re.fullmatch(r"h\d", one.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_hostile_names_are_shown_as_they_are(whole: Element) -> None:
    for name in ("data-variant", "data-site", "data-layer"):
        found = [one for one in whole.inside if one.attributes.get(name) == HOSTILE]
        assert found, name
        assert all(HOSTILE in one.text for one in found if one.tag in {"tr", "figure"})
    assert not [one for one in whole.inside if one.tag == "b" and one.text == "Gelu"]


def test_the_verdict_comes_first(whole: Element) -> None:
    (heading,) = [one for one in whole.inside if one.tag == "h1"]
    order = [id(one) for one in whole.inside]
    assert heading.text == "int8 must not ship"
    assert order.index(id(heading)) < order.index(id(whole.one(id="variants")))
    assert whole.one(id="verdict").text == "✕ FAIL"
    assert [one.attributes.get("class") for one in whole.inside if one.tag == "header"] == ["top fail"]


@pytest.mark.parametrize(("verdict", "said"), [("pass", "✓ pass"), ("cannot tell", "? CANNOT TELL")])
def test_other_verdicts(verdict: str, said: str) -> None:
    document = read(page.html(comparison(verdict=verdict)))
    assert document.one(id="verdict").text == said


def test_many_rows_are_there_but_folded() -> None:
    document = read(page.html(RESULTS["large"]))
    folded = [part for one in document.inside if one.tag == "details" for part in one.inside]
    for name, count, shown in (("data-site", 48, 12), ("data-column", 14 * 14, 12 * 14)):
        found = [one for one in document.inside if name in one.attributes]
        assert len(found) == count
        assert len([one for one in found if not any(one is part for part in folded)]) == shown


def test_each_family_has_its_shape(whole: Element) -> None:
    def shapes(name: str) -> list[tuple[str, str]]:
        points = [part for part in whole.one(data_point=name).inside if "point" in part.attributes.get("class", "")]
        return [(one.tag, one.attributes["class"]) for one in points]

    assert shapes("int8") == [("circle", "point model filled")]
    assert shapes("float") == [("circle", "point model hollow")]
    assert shapes("twin int8") == [("path", "point twin filled")]


def test_without_scores_the_plot_is_of_answers_that_stay() -> None:
    result = comparison(variants=[variant("int8", score=None, difference=None)])
    assert "answers that stay the float file’s" in read(page.html(result)).one(id="latency").text


@pytest.mark.parametrize("part", ["activation", "waterfalls", "sites", "sensitivity"])
def test_a_part_that_is_not_there_has_no_section(part: str) -> None:
    sections = {"activation": "twin", "waterfalls": "errors", "sites": "sites", "sensitivity": "layers"}
    document = read(page.html(comparison(**{part: NOTHING[part]})))
    assert document.find(id=sections[part]) == []
    assert document.find(href=f"#{sections[part]}") == []


def test_odd_numbers_draw_a_page() -> None:
    flat = estimate(0.5)
    odd: CompareResult = comparison(variants=[variant("a", score=flat), variant("b", score=flat, memory=0)])
    odd["waterfalls"][0]["steps"][0]["noise"] = odd["waterfalls"][0]["noise"] = float("inf")
    for one in odd["sites"]:
        one["output"]["counts"] = [0] * len(one["output"]["counts"])
    assert "Without a number to count" in read(page.html(odd)).one(id="sites").text


def themes() -> list[dict[str, str]]:
    """Colours by name, light and dark."""
    light, dark = re.findall(r":root \{(.*?)\}", (TEMPLATES / "page.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for text in (light, dark)]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's ratio of the relative luminances of two colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", themes(), ids=["light", "dark"])
def test_text_and_pictures_stand_out(colours: dict[str, str]) -> None:
    texts = [(text, ground) for text in ("text", "quiet") for ground in ("card", "page", "mark")]
    texts += [
        ("pass", "tint-pass"),
        ("fail", "tint-fail"),
        ("unsure", "tint-unsure"),
        ("model", "card"),
        ("model", "mark"),
    ]
    assert {pair: ratio for pair in texts if (ratio := contrast(*(colours[name] for name in pair))) < 4.5} == {}
    drawn = ("twin", "also", "both", "base", "cause", "largest", "mass", "mass-twin", "code")
    marks = [*((mark, "card") for mark in drawn), ("code", "band")]
    assert {pair: ratio for pair in marks if (ratio := contrast(*(colours[name] for name in pair))) < 3} == {}


def test_no_template_is_longer_than_300_lines() -> None:
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in TEMPLATES.iterdir()}
    assert {name: length for name, length in lengths.items() if length > 300} == {}

"""Numbers as a reader wants them."""

from __future__ import annotations

import math

import pytest
from compare_sample import comparison, difference, estimate

from gelu_deploy.report import words
from gelu_deploy.results import MetricResult

TOP1 = MetricResult(name="top1", higher_is_better=True, percent=True)
PERPLEXITY = MetricResult(name="perplexity", higher_is_better=False, percent=False)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (0.212, "0.212"),
        (45.64, "45.6"),
        (-45.64, "−45.6"),
        (1234.4, "1,234"),
        (1.2e-7, "1.2e-7"),
        (-1.2e-12, "−1.2e-12"),
        (3.4e9, "3.4e9"),
        (math.nan, "–"),
        (None, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_figures(value: float | None, said: str) -> None:
    assert words.figures(value) == said


def test_nothing_is_less_than_zero_by_rounding() -> None:
    assert words.fixed(-0.001, 2) == "0.00"
    assert words.share(-0.00001) == "0.0%"


@pytest.mark.parametrize(
    ("count", "said"),
    [(182_340, "182 kB"), (999, "0.999 kB"), (1_234_567, "1.23 MB"), (312e6, "312 MB"), (0, "–"), (math.nan, "–")],
)
def test_size(count: float, said: str) -> None:
    assert words.size(count) == said


def test_shares_have_points_and_other_metrics_have_not() -> None:
    gap = estimate(0.0022, -0.0044, 0.0089)
    assert (words.score(0.9756, TOP1), words.score_interval(gap, TOP1)) == ("97.56%", "−0.44 to 0.89%")
    assert (words.loss(0.0022, TOP1), words.loss_interval(gap, TOP1)) == ("0.22 points", "−0.44 to 0.89")
    assert words.loss(0.0022, TOP1, signed=True) == "+0.22 points"
    assert (words.score(12.345, PERPLEXITY), words.loss(-0.265, PERPLEXITY)) == ("12.35", "−0.265")


def test_what_was_not_measured_has_no_unit() -> None:
    said = [
        words.decibels(math.nan),
        words.milliseconds(None),
        words.times(None),
        words.share(None),
        words.loss(None, TOP1),
    ]
    assert said == ["–"] * 5


def test_mcnemar() -> None:
    rare = difference("float", estimate(0.1), 1_200, 2, 1e-9)
    assert (words.flips(rare), words.chance(rare)) == ("1,200 : 2", "p < 0.001")
    other = difference("float", estimate(0.1), 0, 0, math.nan)
    assert (words.flips(other), words.chance(other)) == ("–", "")


def test_the_headline_says_the_verdict() -> None:
    said = [words.headline(comparison(verdict=one)) for one in ("pass", "fail", "cannot tell")]
    assert said == ["int8 may ship", "int8 must not ship", "Too early to say whether int8 may ship"]
    assert words.headline(comparison(verdict="pass", gates=[])) == "Nothing is decided"


@pytest.mark.parametrize("name", ["encoder.layer.0_a/b", "A+B", "plain", "", "a..b/"])
def test_a_name_breaks_between_its_parts_and_loses_nothing(name: str) -> None:
    assert "".join(words.parts(name)) == name
    assert words.parts("encoder.layer_0") == ["encoder.", "layer_", "0"]


@pytest.mark.parametrize(
    ("path", "name"), [("/data/a.onnx", "a.onnx"), ("a.onnx", "a.onnx"), ("folder/", "folder"), ("", "")]
)
def test_a_file_is_shown_without_its_folders(path: str, name: str) -> None:
    assert words.last(path) == name

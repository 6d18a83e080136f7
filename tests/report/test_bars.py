"""Waterfalls, rankings and intervals as places on an axis."""

from __future__ import annotations

import math

import pytest
from compare_sample import comparison, ranking, waterfall

from gelu_deploy.report import bars
from gelu_deploy.results import MetricResult, WaterfallResult, WaterfallStep


def test_each_step_begins_where_the_one_before_ended() -> None:
    fall = bars.waterfall(waterfall("int8", [1e-6, 0.0, 4e-5, 1.6e-4, 0.0], [0, 0, 1, 2, 0]))
    ends = [(step.left, step.left + step.width) for step in fall.steps]
    assert ends[0][0] == 0
    assert ends[-1][1] == pytest.approx(100)
    assert [begin for begin, _ in ends[1:]] == pytest.approx([end for _, end in ends[:-1]])
    assert sum(step.share for step in fall.steps) == pytest.approx(1)
    assert fall.steps[-1].sqnr == pytest.approx(fall.result["sqnr"])
    assert fall.largest == fall.steps[3]


def test_a_cause_that_undoes_error_goes_back() -> None:
    fall = bars.waterfall(waterfall("int8", [0.0, 0.0, 1e-4, 3e-4, -2e-4], [0] * 5))
    third, last = fall.steps[3:]
    assert third.left + third.width == pytest.approx(100)
    assert last.undoes
    assert last.left + last.width == pytest.approx(100)
    assert last.share == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("noises", "whole"),
    [([0.0, 0.0], 0.0), ([1e-4, math.inf], math.inf), ([math.inf, -math.inf], 1e-4), ([math.nan, math.nan], math.nan)],
)
def test_without_a_number_there_is_no_bar(noises: list[float], whole: float) -> None:
    steps = [WaterfallStep(name="cause", noise=noise, flips=0) for noise in noises]
    fall = bars.waterfall(WaterfallResult(variant="int8", steps=steps, noise=whole, sqnr=0.0, flips=0))
    assert fall.steps[-1].width == 0
    assert len(fall.ticks) > 1


def test_the_worst_layers_are_shown_and_the_longest_bar_is_the_worst() -> None:
    layers = ranking("int8", 30)["layers"]
    found = bars.ranked(layers)
    assert [bar.layer for bar in found] == layers[: bars.RANKED]
    assert found[0].width == 100
    assert found[1].width == pytest.approx(100 * layers[1]["kl"] / layers[0]["kl"])


@pytest.mark.parametrize("percent", [True, False])
def test_intervals_hold_zero_and_keep_their_order(percent: bool) -> None:
    result = comparison()["activation"]
    assert result is not None
    drawn = bars.intervals(result, MetricResult(name="", higher_is_better=True, percent=percent))
    assert 0 < drawn.zero < 100
    assert all(0 <= row.low <= row.value <= row.high <= 100 for row in drawn.rows)
    assert [row.estimate for row in drawn.rows] == [result["model_loss"], result["twin_loss"], result["difference"]]
    assert ("0.5" if percent else "0.005") in {text for _, text in drawn.ticks}

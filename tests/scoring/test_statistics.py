"""Intervals, paired differences and numbers of rows, by their laws and against SciPy; their rates: test_intervals."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from populations import CONFIDENCES, OVERLAP, TOP1, characters, overlaps, perplexity, shares, tokens
from scipy.stats import binomtest, bootstrap, t, ttest_rel

from gelu_deploy.arrays import Array
from gelu_deploy.errors import SetupError, UsageError
from gelu_deploy.results import Estimate
from gelu_deploy.scoring.metric import named
from gelu_deploy.scoring.metrics import McNemar
from gelu_deploy.scoring.statistics import difference, estimate, loss_difference

ERRORS = replace(TOP1, name="errors", higher_is_better=False)


def ends(interval: Estimate) -> list[float]:
    return [interval["low"], interval["high"]]


def rows(right: int, wrong: int) -> Array:
    return np.repeat([1.0, 0.0], [right, wrong])


@pytest.mark.parametrize(("right", "wrong"), [(90, 10), (1, 0), (0, 50), (300, 0), (499, 1)])
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_rows_that_are_right_or_wrong_get_wilsons_interval(right: int, wrong: int, confidence: float) -> None:
    found = estimate(rows(right, wrong), TOP1, confidence)
    wilson = binomtest(right, right + wrong).proportion_ci(confidence, "wilson")
    assert [found["value"], *ends(found)] == pytest.approx(
        [right / (right + wrong), wilson.low, wilson.high], abs=1e-12
    )


def test_tokens_of_a_row_that_are_right_together_are_worth_no_more_than_the_row() -> None:
    whole = np.repeat([[20.0, 20.0], [0.0, 20.0]], [90, 10], axis=0)
    assert ends(estimate(whole, TOP1, 0.95)) == pytest.approx(ends(estimate(rows(90, 10), TOP1, 0.95)), abs=2e-3)
    same = np.tile([18.0, 20.0], (100, 1))
    assert ends(estimate(same, TOP1, 0.95)) == pytest.approx(ends(estimate(rows(1800, 200), TOP1, 0.95)), abs=1e-3)


def test_a_ratios_intervals_are_those_of_the_bootstrap() -> None:
    before, after = perplexity(0.05).sample(np.random.default_rng(0), 400)

    def ratio(above: Array, below: Array, axis: int = -1) -> Array:
        return np.asarray(np.exp(above.sum(axis) / below.sum(axis)))

    def lost(second: Array, first: Array, below: Array, axis: int = -1) -> Array:
        return ratio(second, below, axis) - ratio(first, below, axis)

    metric = named("perplexity")
    options: dict[str, Any] = {"paired": True, "vectorized": True, "n_resamples": 4000, "rng": 0}
    single = bootstrap((before[:, 0], before[:, 1]), ratio, **options).confidence_interval
    paired = bootstrap((after[:, 0], before[:, 0], before[:, 1]), lost, **options).confidence_interval
    width = single.high - single.low
    assert ends(estimate(before, metric, 0.95)) == pytest.approx([single.low, single.high], abs=0.06 * width)
    width = paired.high - paired.low
    found = difference(before, after, metric, 0.95, None, "float")["loss"]
    assert ends(found) == pytest.approx([paired.low, paired.high], abs=0.06 * width)


def test_real_scores_get_nearly_students_interval() -> None:
    before, after = (one[:, 0] for one in overlaps(1.0).sample(np.random.default_rng(0), 500))
    student = ttest_rel(before, after).confidence_interval(0.95)
    found = difference(before, after, OVERLAP, 0.95, None, "float")
    assert ends(found["loss"]) == pytest.approx([student.low, student.high], rel=0.02)
    assert (found["lost"], found["gained"]) == (0, 0)
    assert np.isnan(found["p"])


def test_what_is_lost_and_gained_is_mcnemars() -> None:
    before, after = rows(95, 5), np.concatenate([rows(0, 7), rows(88, 0), rows(2, 3)])
    found = difference(before, after, TOP1, 0.95, None, "float")
    assert (found["against"], found["lost"], found["gained"], found["p"]) == ("float", 7, 2, McNemar(7, 2).p)
    assert found["loss"]["value"] == pytest.approx(0.05)
    assert found["loss"]["low"] < 0 < found["loss"]["high"]


def test_a_loss_is_positive_whichever_way_the_metric_runs() -> None:
    before, after = shares(0.9, 0.05, 0.01).sample(np.random.default_rng(0), 500)
    up, down = (difference(before, after, metric, 0.95, None, "float") for metric in (TOP1, ERRORS))
    assert up["loss"]["value"] == -down["loss"]["value"] > 0
    assert (up["lost"], up["gained"]) == (down["gained"], down["lost"])
    nats = perplexity(0.1).sample(np.random.default_rng(0), 300)
    assert difference(*nats, named("perplexity"), 0.95, None, "")["loss"]["low"] > 0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(3, 4)), min_size=1, max_size=30))
def test_the_way_back_is_the_loss_turned_round_and_the_value_is_inside(counts: list[tuple[int, int, int]]) -> None:
    table = np.array(counts, np.float64)
    pair = table[:, [0, 2]], table[:, [1, 2]]
    there, back = (difference(*way, TOP1, 0.9, None, "") for way in (pair, pair[::-1]))
    assert there["loss"]["low"] <= there["loss"]["value"] <= there["loss"]["high"]
    assert ends(there["loss"])[::-1] == pytest.approx([-end for end in ends(back["loss"])], abs=1e-9)
    score = estimate(table[:, [0, 2]], TOP1, 0.9)
    assert 0 <= score["low"] <= score["value"] <= score["high"] <= 1


def test_no_change_is_no_proof_of_none() -> None:
    for right, wrong in ((100, 0), (90, 10)):
        loss = difference(rows(right, wrong), rows(right, wrong), TOP1, 0.95, None, "float")["loss"]
        assert loss["value"] == 0
        assert loss["high"] == -loss["low"] == pytest.approx(3.9 / 104, rel=0.02)  # z² of n + z² rows
    same = characters(0.05, 0.3, 0.6).before[:100]
    assert difference(same, same, named("cer"), 0.95, None, "float")["loss"]["high"] > 0


def test_rows_in_which_nothing_counts_change_nothing() -> None:
    before, after = tokens(0.9, 0.02).sample(np.random.default_rng(0), 200)
    padded = np.pad(before, ((0, 50), (0, 0))), np.pad(after, ((0, 50), (0, 0)))
    assert estimate(padded[0], TOP1, 0.95) == estimate(before, TOP1, 0.95)
    assert difference(*padded, TOP1, 0.95, 1e-4, "") == difference(before, after, TOP1, 0.95, 1e-4, "")
    with pytest.raises(UsageError, match="top1: no row counts"):
        estimate(np.zeros((5, 2)), TOP1, 0.95)


def test_a_finish_may_fall_and_is_not_asked_below_what_can_be() -> None:
    scores = np.array([0.0, 0.0, 0.0, 4.0])
    root = estimate(scores, replace(OVERLAP, finish=np.sqrt), 0.95)
    assert (root["low"], root["value"]) == (0, 1)
    falling = estimate(scores, replace(OVERLAP, finish=lambda number: -number), 0.95)
    assert ends(falling) == pytest.approx([-(root["high"] ** 2), 0])
    assert estimate(np.array([3.0]), OVERLAP, 0.95) == {"value": 3, "low": 0, "high": np.inf}


def test_a_larger_loss_than_the_twins() -> None:
    random = np.random.default_rng(0)
    model, twin = shares(0.9, 0.1, 0.0).sample(random, 1000), shares(0.9, 0.01, 0.01).sample(random, 1000)
    found = loss_difference(*model, *twin, TOP1, 0.95)
    own, other = (difference(*pair, TOP1, 0.95, None, "")["loss"]["value"] for pair in (model, twin))
    assert found["value"] == pytest.approx(own - other)
    assert 0 < found["low"] < found["value"] < found["high"]
    same = loss_difference(*model, *model, TOP1, 0.95)
    assert same["value"] == 0
    assert same["high"] == -same["low"] > 0


def test_more_rows_are_asked_for_until_the_budget_is_reached() -> None:
    before, after = shares(0.9, 0.02, 0.02).sample(np.random.default_rng(0), 5000)

    def more(budget: float | None) -> int:
        return difference(before, after, TOP1, 0.95, budget, "")["more_rows"]

    half = np.ptp(ends(difference(before, after, TOP1, 0.95, None, "")["loss"])) / 2
    assert (more(half * 1.01), more(None), more(0)) == (0, 0, 0)
    assert 0 < more(half * 0.99) < 5000 * 0.03
    assert more(half / 2) == pytest.approx(3 * 5000, rel=0.03)  # half as wide takes four times as many
    assert more(half / 4) == pytest.approx(15 * 5000, rel=0.03)


def test_rows_that_have_not_changed_yet_may_still() -> None:
    same = rows(270, 30)
    loss = difference(same, same, TOP1, 0.95, None, "")["loss"]
    needed = 300 * loss["high"] / 0.002  # were the next ones not to change either
    assert difference(same, same, TOP1, 0.95, 0.002, "")["more_rows"] > needed - 300 + 50


def test_changes_of_different_sizes_tell_less_than_as_many_equal_ones() -> None:
    sizes = np.array([0.1, 0.1, 0.1, 0.2, 0.4])
    sizes = np.concatenate([sizes, -sizes])
    before, uneven, even = np.linspace(0, 1, 200), np.zeros(200), np.zeros(200)
    uneven[:10], even[:10] = sizes, np.sign(sizes) * np.sqrt(np.mean(sizes**2))
    losses = [difference(before, before + moved, OVERLAP, 0.95, None, "")["loss"] for moved in (uneven, even)]
    freedom = 2 * 10 / (np.var(sizes**2, ddof=1) / np.mean(sizes**2) ** 2)
    wide, narrow = (np.ptp(ends(loss)) for loss in losses)
    assert wide / narrow == pytest.approx(t.ppf(0.975, freedom) / t.ppf(0.975, 199))
    assert wide / narrow > 1.1


@pytest.mark.parametrize("confidence", [0, 1, 95, float("nan")])
def test_a_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(UsageError, match=r"expected a share between 0 and 1, such as 0\.95"):
        estimate(rows(5, 5), TOP1, confidence)


def test_scipy_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(SetupError, match=r"pip install 'gelu-deploy\[report\]'"):
        estimate(rows(5, 5), TOP1, 0.95)

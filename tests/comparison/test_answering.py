"""What all answer to the same rows: scored, and held against one another, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.comparison.answering import Judged, judged
from gelu_deploy.comparison.candidates import Run
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.errors import UsageError
from gelu_deploy.scoring import metrics
from gelu_deploy.scoring.metric import Metric, named

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(50, 6)).astype(np.float32)
NOISE = RANDOM.normal(size=(50, 6)).astype(np.float32) / 3
LABELS = X.argmax(axis=1)
AGAINST = {"float": "", "int8": "float", "twin": ""}


def data(sizes: Sequence[int] = (20, 20, 10), labels: Sequence[bool] = (True, True, True)) -> Dataset:
    ends = np.cumsum((0, *sizes))
    pieces = [slice(*pair) for pair in pairwise(ends)]
    batches = [Batch({"x": X[one]}, LABELS[one] if known else None) for one, known in zip(pieces, labels, strict=True)]
    return Dataset("d.npz", lambda: batches, divisible=True)


def noisy(feeds: Arrays) -> Arrays:
    places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in feeds["x"]]
    return {"y": feeds["x"] + NOISE[places]}


RUNS: dict[str, Run] = {
    "float": lambda feeds: {"y": feeds["x"]},
    "int8": noisy,
    "twin": lambda feeds: {"y": -feeds["x"]},
}


def judge(rows: Dataset, metric: Metric | None = None) -> Judged:
    return judged(RUNS, AGAINST, rows, metric or named("top1"), "float", {"twin"})


def scores(found: Judged, name: str) -> Array:
    kept = found.answers[name].scores
    assert kept is not None
    return kept[:, 0]


def test_rows_are_scored_and_held_against_the_other_s_answers() -> None:
    found = judge(data())
    assert (found.rows, found.labelled) == (50, True)
    assert scores(found, "float").tolist() == [1.0] * 50
    right = (X + NOISE).argmax(axis=1) == LABELS
    assert 0 < right.sum() < 50
    assert scores(found, "int8").tolist() == right.astype(float).tolist()
    one = found.answers["int8"]
    assert one.agreement == right.mean()
    assert one.kl == pytest.approx(metrics.kl(X, X + NOISE))
    assert one.sqnr == pytest.approx(metrics.sqnr(X, X + NOISE))


def test_how_rows_come_in_batches_changes_nothing() -> None:
    whole, parts = judge(data((50,), (True,))).answers["int8"], judge(data((7, 43), (True, True))).answers["int8"]
    assert whole.agreement == parts.agreement
    assert whole.sqnr == pytest.approx(parts.sqnr)
    assert whole.kl == pytest.approx(parts.kl)


def test_what_is_held_against_nothing_has_no_such_numbers() -> None:
    one = judge(data()).answers["float"]
    assert one.same is None
    assert all(map(math.isnan, (one.agreement, one.kl, one.sqnr)))


def test_without_labels_the_float_file_is_right_and_the_twin_has_no_score() -> None:
    found = judge(data(labels=(False,) * 3))
    assert not found.labelled
    assert scores(found, "float").tolist() == [1.0] * 50
    assert scores(found, "int8").mean() == found.answers["int8"].agreement
    assert found.answers["twin"].scores is None


def test_some_labels_are_a_mistake() -> None:
    with pytest.raises(UsageError, match=r"d\.npz: some batches have labels and others have none"):
        judge(data(labels=(True, False, True)))


def test_a_metric_that_needs_labels_says_so_and_one_that_does_not_scores_the_twin_too() -> None:
    def size(outputs: Arrays, labels: Array | None, inputs: Arrays) -> Array:
        assert (labels is None) == (inputs is not None)
        mean: Array = np.abs(outputs["y"]).mean(axis=1)
        return mean

    bare = data(labels=(False,) * 3)
    with pytest.raises(UsageError, match="--metric mine needs labels"):
        judge(bare, Metric("mine", size, needs_labels=True))
    found = judge(bare, Metric("mine", size))
    assert found.answers["twin"].scores is not None
    assert found.answers["twin"].scores == pytest.approx(np.abs(X).mean(axis=1))


def test_each_answer_of_a_row_counts_where_it_has_several() -> None:
    runs: dict[str, Run] = {
        "float": lambda feeds: {"y": feeds["x"].reshape(-1, 2, 3)},
        "int8": lambda feeds: {"y": feeds["x"].reshape(-1, 2, 3) * np.array([[[1], [-1]]])},
    }
    found = judged(runs, AGAINST, data(labels=(False,) * 3), named("top1"), "float").answers["int8"]
    assert found.same is not None
    assert found.same[:, 1].tolist() == [2.0] * 50
    assert found.agreement == 0.5


def test_answers_that_are_no_classes_have_an_sqnr_and_nothing_is_scored() -> None:
    runs: dict[str, Run] = {
        "float": lambda feeds: {"y": feeds["x"][:, :1]},
        "int8": lambda feeds: {"y": feeds["x"][:, :1] * 1.1},
    }
    found = judged(runs, AGAINST, data(labels=(False,) * 3), named("top1"), "float").answers
    assert found["float"].scores is found["int8"].scores is found["int8"].same is None
    assert found["int8"].sqnr == pytest.approx(20, abs=0.1)
    with pytest.raises(UsageError, match="top1 takes the class"):
        judged(runs, AGAINST, data(), named("top1"), "float")

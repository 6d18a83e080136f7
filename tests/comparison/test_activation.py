"""Which activation INT8 costs more, and what the data allow to say of it."""

from __future__ import annotations

import numpy as np
import pytest

from gelu_deploy.arrays import Array
from gelu_deploy.comparison.activation import Pair, activation
from gelu_deploy.scoring.metric import Metric, named

TOP1 = named("top1")
ERROR = Metric("error", lambda *_: np.zeros(0), higher_is_better=False)


def rows(wrong: int, count: int = 1000) -> Array:
    return np.repeat([0.0, 1.0], [wrong, count - wrong])


def test_a_difference_beyond_the_interval_is_told() -> None:
    found = activation("int8", Pair("erf", rows(20), rows(120)), Pair("relu", rows(30), rows(35)), TOP1, 0.95)
    assert found["model_loss"]["value"] == pytest.approx(0.1)
    assert found["twin_loss"]["value"] == pytest.approx(0.005)
    assert found["difference"]["value"] == pytest.approx(0.095)
    assert found["difference"]["low"] > 0.05
    assert found["float_difference"]["value"] == pytest.approx(-0.01)
    sentence = found["sentence"]
    assert sentence.startswith("INT8 costs GELU 10.00 points (")
    assert "and ReLU 0.50 (" in sentence
    assert sentence.endswith("is told from zero with 1000 rows: GELU loses more")


def test_the_twin_may_be_the_one_that_loses_more() -> None:
    found = activation("int8", Pair("tanh", rows(20), rows(21)), Pair("relu", rows(20), rows(120)), TOP1, 0.95)
    assert found["difference"]["high"] < 0
    assert found["sentence"].startswith("INT8 costs tanh GELU 0.10 points")
    assert found["sentence"].endswith(": ReLU loses more")


def test_a_difference_within_the_interval_is_not_told_from_zero() -> None:
    found = activation("w8", Pair("erf", rows(3, 50), rows(4, 50)), Pair("erf", rows(3, 50), rows(3, 50)), TOP1, 0.95)
    assert found["difference"]["low"] < 0 < found["difference"]["high"]
    assert found["sentence"].startswith("W8 costs the model 2.00 points")
    assert found["sentence"].endswith("is not told from zero with 50 rows")


def test_a_loss_is_positive_whichever_way_the_metric_runs() -> None:
    base = np.random.default_rng(0).uniform(1, 2, size=200)
    found = activation("int8", Pair("erf", base, base + 0.5), Pair("relu", base - 0.25, base), ERROR, 0.95)
    assert found["model_loss"]["value"] == pytest.approx(0.5)
    assert found["difference"]["value"] == pytest.approx(0.25)
    assert found["float_difference"]["value"] == pytest.approx(-0.25)
    assert "GELU 0.500 of error (" in found["sentence"]

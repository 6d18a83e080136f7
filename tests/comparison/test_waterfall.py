"""Steps from the original to a variant: sums worked out by hand, and those of a real quantized network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from quantize_judging import recipe
from quantize_networks import feeds, ffn

from gelu_deploy import runtime
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.comparison.waterfall import Run, waterfall
from gelu_deploy.data import Batch
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.measures.judging import noise
from gelu_deploy.quantization.measures.rounding import rounded_weights

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 5)).astype(np.float32)
SMALL, LARGE = (RANDOM.normal(scale=scale, size=X.shape).astype(np.float32) for scale in (0.05, 0.3))
ROWS = np.arange(len(X))


def _batches(*cuts: int) -> Iterator[Batch]:
    return (Batch({"rows": rows}) for rows in np.split(ROWS, cuts))


def _answering(*outputs: Array) -> Run:
    """A run whose answers to the rows with these numbers are known."""
    return lambda given: {f"y{place}": output[given["rows"]] for place, output in enumerate(outputs)}


def _share(*errors: Array) -> float:
    return float(np.square(sum(errors), dtype=np.float64).sum() / np.square(X, dtype=np.float64).sum())


def test_steps_and_flips_by_hand() -> None:
    runs = [("float", _answering(X)), ("one", _answering(X + SMALL)), ("two", _answering(X + SMALL + LARGE))]
    found = waterfall("int8", runs, _batches(7, 30))
    one, two = found["steps"]
    assert (found["variant"], one["name"], two["name"]) == ("int8", "one", "two")
    assert one["noise"] == pytest.approx(_share(SMALL), rel=1e-5)
    assert one["noise"] + two["noise"] == found["noise"] == pytest.approx(_share(SMALL, LARGE), rel=1e-5)
    assert found["sqnr"] == pytest.approx(-10 * np.log10(_share(SMALL, LARGE)), abs=1e-4)
    a, b, c = (array.argmax(axis=-1) for array in (X, X + SMALL, X + SMALL + LARGE))
    assert (one["flips"], two["flips"], found["flips"]) == (np.sum(a != b), np.sum(b != c), np.sum(a != c))
    assert 0 < one["flips"] < two["flips"]
    whole = waterfall("int8", runs, _batches())
    assert whole["noise"] == pytest.approx(found["noise"])
    assert [step["flips"] for step in whole["steps"]] == [one["flips"], two["flips"]]


def test_errors_that_cancel_are_a_negative_step_and_flips_count_in_each() -> None:
    wrong = np.roll(X, 1, axis=-1)
    runs = [("float", _answering(X)), ("wrong", _answering(wrong)), ("undone", _answering(X))]
    found = waterfall("int8", runs, _batches(10))
    there, back = found["steps"]
    assert there["noise"] == -back["noise"] == pytest.approx(_share(wrong - X), rel=1e-5)
    assert (there["flips"], back["flips"], found["flips"]) == (60, 60, 0)
    assert (found["noise"], found["sqnr"]) == (0, math.inf)


def test_answers_that_are_not_finite_are_infinite_noise_and_no_step_is_nan() -> None:
    broken = np.where(ROWS[:, None] == 3, np.nan, X + SMALL)
    broken[3, 1:] = np.inf
    causes = [("broken", _answering(broken)), ("still", _answering(broken)), ("finite", _answering(X + SMALL))]
    found = waterfall("int8", [("float", _answering(X)), *causes], _batches(5))
    assert [step["noise"] for step in found["steps"]] == [math.inf, 0, -math.inf]
    assert found["noise"] == pytest.approx(_share(SMALL), rel=1e-5)
    assert [step["flips"] for step in found["steps"]][1:] == [0, 1]
    ended = waterfall("int8", [("float", _answering(X)), *causes[:2]], _batches(5))
    assert (ended["noise"], ended["sqnr"]) == (math.inf, -math.inf)
    same = waterfall("int8", [("float", _answering(broken)), ("same", _answering(broken))], _batches())
    assert (same["noise"], same["flips"]) == (0, 0)


def test_an_error_where_nothing_was_expected_is_infinite() -> None:
    zeros = np.zeros_like(X)
    found = waterfall("int8", [("float", _answering(zeros)), ("one", _answering(zeros + 1))], _batches())
    assert (found["noise"], found["sqnr"]) == (math.inf, -math.inf)


def test_the_mean_over_float_outputs_and_no_flips_without_classes() -> None:
    runs = [
        ("float", _answering(X[:, :1], X, ROWS)),
        ("one", _answering(X[:, :1], X + SMALL, ROWS[::-1])),
    ]
    found = waterfall("int8", runs, _batches(20))
    assert found["noise"] == pytest.approx(_share(SMALL) / 2, rel=1e-5)
    assert found["flips"] == found["steps"][0]["flips"] == 0
    whole = waterfall("int8", [("float", _answering(ROWS)), ("one", _answering(ROWS + 1))], _batches())
    assert math.isnan(whole["noise"])
    assert math.isnan(whole["sqnr"])


def test_a_batch_at_a_time_and_the_data_once() -> None:
    order = list[Any]()

    def data() -> Iterator[Batch]:
        for batch in _batches(20, 40):
            order.append("read")
            yield batch

    def noted(name: str, output: Array) -> tuple[str, Run]:
        def run(given: Arrays) -> Arrays:
            order.append(name)
            return _answering(output)(given)

        return name, run

    waterfall("int8", [noted("float", X), noted("one", X + SMALL)], data())
    assert order == ["read", "float", "one"] * 3


def test_outputs_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        waterfall("int8", [("float", _answering(X)), ("one", _answering(X, X))], _batches())
    with pytest.raises(ValueError, match="shapes differ"):
        waterfall("int8", [("float", _answering(X)), ("one", _answering(X[:, :2]))], _batches())


def test_of_a_quantized_network_the_whole_is_its_sqnr(tmp_path: Path) -> None:
    made = ffn(width=48, hidden=96)
    data = list(feeds(made, count=3, batch=16))
    ir.save(insert.static(made, recipe(made, data)), tmp_path / "int8.onnx")
    weights = rounded_weights(tmp_path / "int8.onnx")
    assert weights is not None
    with made.showing(()) as exact, weights, runtime.Session(tmp_path / "int8.onnx") as integer:
        runs: list[tuple[str, Run]] = [("float", exact), ("rounded weights", weights), ("integer kernels", integer)]
        found = waterfall("int8", runs, map(Batch, data))
        assert found["sqnr"] == pytest.approx(noise((exact(feed), integer(feed)) for feed in data))
        parts = [waterfall("", [runs[0], run], map(Batch, data))["noise"] for run in runs[1:]]
    noises = np.cumsum([step["noise"] for step in found["steps"]])
    assert noises == pytest.approx(parts)
    assert noises[-1] == pytest.approx(found["noise"])
    assert all(before < after for before, after in pairwise([0.0, *noises]))

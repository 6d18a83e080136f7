"""Float and integer answers side by side, on networks whose answers are their inputs, so that all can be counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest
from quantize_judging import noise as measured
from quantize_judging import recipe
from quantize_networks import Builder, answers, feeds, ffn, network

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.errors import UsageError
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.measures.judging import JUDGED, Exam, Judge, compared, has_classes, noise
from gelu_deploy.quantization.network import Network

LOGITS = np.array([[3, 0, 1], [0, 3, 1], [0, 1, 3], [3, 1, 0]], np.float32)


def passing(change: Array) -> Network:
    """y = x·change, three classes."""
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 3))
    w, b = make.weight("w", np.asarray(change, np.float32)), make.weight("b", np.zeros(3))
    return network(make.model([x], make.op("y", "Gemm", x, w, b)))


SAME = passing(np.eye(3))
SWAPPED = passing(np.eye(3)[[1, 0, 2]]).whole()
"""Classes 0 and 1 change places."""
BROKEN = passing(np.full((3, 3), np.nan)).whole()


def data(*labels: Sequence[int] | None, logits: Array = LOGITS) -> Dataset:
    """A batch of the four rows for each list of labels."""
    batches = [Batch({"x": logits}, None if one is None else np.asarray(one)) for one in labels]
    return Dataset("rows", lambda: batches, divisible=True)


def test_points_of_accuracy_where_all_rows_have_labels() -> None:
    exam = Exam(SAME, data([0, 1, 2, 2], [0, 1, 2, 2]))
    assert exam.labelled
    assert exam(SAME.whole()) == 0
    assert exam(SWAPPED) == pytest.approx(50)  # of three rights in four only the one of class 2 is left
    assert exam(BROKEN) == pytest.approx(75)


def test_an_integer_model_that_knows_better_loses_less_than_nothing() -> None:
    assert Exam(SAME, data([1, 0, 2, 1]))(SWAPPED) == pytest.approx(-75)


def test_points_of_agreement_where_some_row_has_no_label() -> None:
    for some in (data(None), data([1, 1, 1, 1], None)):
        exam = Exam(SAME, some)
        assert not exam.labelled
        assert (exam(SAME.whole()), exam(SWAPPED), exam(BROKEN)) == (0, 75, 100)


def test_labels_must_be_numbers_one_for_each_row_and_the_output_classes() -> None:
    for labels, said in [
        (np.zeros((4, 2), int), r"rows: labels came with shape \(4, 2\).*shape \(4,\)"),
        (np.array(["a"] * 4), "rows: labels came as <U1, expected the numbers of the classes"),
    ]:
        wrong = Dataset("rows", [Batch({"x": LOGITS}, labels)].copy, divisible=True)
        with pytest.raises(UsageError, match=said):
            Exam(SAME, wrong)
        with pytest.raises(UsageError, match=said):
            compared(SAME, SWAPPED, wrong)
    one = ffn(width=1, hidden=4)
    with pytest.raises(UsageError, match="first output is not classes"):
        Exam(one, Dataset("rows", lambda: map(Batch, feeds(one)), divisible=True))


def test_what_has_classes() -> None:
    assert has_classes(np.zeros((4, 3), np.float32))
    assert has_classes(np.zeros((4, 5, 3), np.float16))
    assert not any(map(has_classes, [np.zeros((4, 1), np.float32), np.zeros(3, np.float32), np.zeros((4, 3), int)]))


def test_both_beside_each_other_with_labels() -> None:
    found = compared(SAME, SWAPPED, data([0, 1, 2, 2], [0, 0, 2, 1]))
    assert (found.rows, found.before, found.after) == (8, 5 / 8, 4 / 8)
    assert (found.test.lost, found.test.gained) == (3, 2)
    assert found.agreement == 2 / 8
    assert found.finite
    error, signal = 2 * np.sum((LOGITS[:, 0] - LOGITS[:, 1]) ** 2), np.sum(LOGITS**2)
    assert found.sqnr == pytest.approx(10 * np.log10(signal / error), abs=1e-4)


def test_both_beside_each_other_without_labels() -> None:
    found = compared(SAME, SAME.whole(), data(None))
    assert (found.rows, found.agreement, found.sqnr) == (0, 1, math.inf)
    assert math.isnan(found.before)
    assert compared(SAME, SWAPPED, data([0, 1, 2, 2], None)).rows == 0


def test_what_is_not_finite_is_told_but_not_where_float_is_not_either() -> None:
    found = compared(SAME, BROKEN, data(None))
    assert (found.finite, found.agreement) == (False, 0)
    holed = LOGITS.copy()
    holed[0] = np.nan
    assert compared(SAME, SAME.whole(), data(None, logits=holed)).finite
    assert compared(SAME, SAME.whole(), data(None, logits=holed)).agreement == 3 / 4


def test_noise_is_the_mean_of_the_outputs_over_all_batches() -> None:
    one, number = np.full(8, 1, np.float32), np.arange(8)
    wanted: Arrays = {"a": one, "b": one, "n": number}
    got: Arrays = {"a": one - 0.1, "b": one - 0.01, "n": number + 1}
    pairs = [(wanted, got)] * 2
    assert noise(pairs) == pytest.approx((20 + 40) / 2, abs=1e-3)
    assert math.isnan(noise([({"n": number}, {"n": number})]))


def test_a_judge_keeps_the_float_answers_to_the_first_batches() -> None:
    made = ffn(width=32, hidden=64)
    batches = list(feeds(made, count=JUDGED + 4))
    read = list[int]()

    def reading() -> Sequence[Batch]:
        read.append(1)
        return [Batch(one) for one in batches]

    judge = Judge(made, Dataset("rows", reading, divisible=True))
    model = insert.static(made, recipe(made, batches))
    wanted = [answers(made.whole(), one) for one in batches[:JUDGED]]
    assert judge(model) == pytest.approx(measured(model, wanted, batches[:JUDGED]), abs=0.01)
    assert judge(made.whole()) > 100
    assert len(read) == 1

"""Batches read again, hashed and split."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import pytest

from gelu_deploy.data import Batch, Dataset
from gelu_deploy.errors import UsageError


def dataset(*sizes: int, divisible: bool = True, shift: float = 0) -> Dataset:
    """Batches of these rows, numbered through, each row labelled with its number."""
    ends = np.cumsum(sizes)
    parts = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    made = [Batch({"x": (part[:, None] + shift).astype(np.float32)}, part) for part in parts]
    return Dataset("made", lambda: made, divisible=divisible)


def rows(batches: Iterable[Batch]) -> list[list[int]]:
    found = []
    for batch in batches:
        assert batch.labels is not None
        assert batch.inputs["x"][:, 0].tolist() == batch.labels.tolist()
        found.append(batch.labels.tolist())
    return found


def test_data_are_read_any_number_of_times() -> None:
    data = dataset(2, 3)
    assert rows(data) == rows(data) == [[0, 1], [2, 3, 4]]


def test_every_fourth_batch_is_held_out() -> None:
    fit, held = dataset(*[1] * 9).split()
    assert rows(held) == [[3], [7]]
    assert rows(fit) == [[0], [1], [2], [4], [5], [6], [8]]
    assert rows(held) == [[3], [7]]


@pytest.mark.parametrize(
    ("sizes", "fit", "held"),
    [
        ((2,), [[0]], [[1]]),
        ((8,), [[0, 1, 2, 4, 5, 6]], [[3, 7]]),
        ((1, 1), [[0]], [[1]]),
        ((1, 1, 1), [[0], [1]], [[2]]),
        ((3, 2), [[0, 1, 2], [4]], [[3]]),
        ((1, 1, 1, 1), [[0], [1], [2]], [[3]]),
    ],
)
def test_few_batches_are_split_by_rows(sizes: tuple[int, ...], fit: list[list[int]], held: list[list[int]]) -> None:
    first, second = dataset(*sizes).split()
    assert (rows(first), rows(second)) == (fit, held)


def test_where_rows_cannot_be_divided_the_last_batch_is_held_out() -> None:
    first, second = dataset(2, 2, 2, divisible=False).split()
    assert (rows(first), rows(second)) == ([[0, 1], [2, 3]], [[4, 5]])


@pytest.mark.parametrize(("size", "divisible", "word"), [(1, True, "row"), (4, False, "batch")])
def test_a_single_row_is_both_and_that_is_said(size: int, divisible: bool, word: str) -> None:
    data = dataset(size, divisible=divisible)
    first, second = data.split()
    assert rows(first) == rows(second) == rows(data)
    assert data.notes == [f"made is a single {word}: what is fitted to it is judged by it too"]
    data.split()
    assert len(data.notes) == 1


def test_the_digest_is_that_of_the_content() -> None:
    same, other = dataset(2, 3), dataset(2, 3, shift=1e-3)
    assert dataset(2, 3).digest == same.digest
    assert len({same.digest, other.digest, dataset(5).digest}) == 3
    assert same.split()[0].digest != same.split()[1].digest


def test_the_digest_sees_names_types_and_labels() -> None:
    array = np.zeros((2, 2), np.float32)
    variants = [
        Batch({"x": array}),
        Batch({"y": array}),
        Batch({"x": array}, np.zeros(2)),
        Batch({"x": array.view(np.int32)}),
        Batch({"x": array.reshape(1, 4)}),
        Batch({"x": np.asarray([["a", "b"]])}),
        Batch({"x": np.asarray([["a", "c"]], object)}),
    ]
    digests = [Dataset("made", partial(iter, [one]), divisible=True).digest for one in variants]
    assert len(set(digests)) == len(variants)


def test_no_batch_is_refused() -> None:
    with pytest.raises(UsageError, match="made holds not one batch"):
        list(dataset())

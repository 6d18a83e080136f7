"""Arrays from archives, files and folders."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gelu_deploy.data import open_data
from gelu_deploy.errors import UsageError
from gelu_deploy.runtime.feeds import Spec

ONE = {"x": Spec("x", ("n", 4), "float32")}
TWO = {"ids": Spec("ids", ("n", "length"), "int64"), "mask": Spec("mask", ("n", "length"), "float32")}
FIXED = {"x": Spec("x", (3, 4), "float32")}


def numbers(rows: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)


@pytest.fixture(params=[np.savez, np.savez_compressed])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    def write(**arrays: Any) -> str:
        request.param(tmp_path / "data.npz", **arrays)
        return str(tmp_path / "data.npz")

    return write


def test_an_archive_in_batches(archive: Any) -> None:
    data = open_data(archive(x=numbers(70), label=np.arange(70), other=np.zeros(3)), ONE)
    batches = list(data)
    assert [batch.rows for batch in batches] == [32, 32, 6]
    assert data.batches == 3
    assert data.name == "data.npz"
    assert data.notes == ["neither inputs nor labels, ignored: other"]
    np.testing.assert_array_equal(np.concatenate([batch.inputs["x"] for batch in batches]), numbers(70))
    labels = [batch.labels for batch in data if batch.labels is not None]
    assert np.concatenate(labels).tolist() == list(range(70))


def test_rows_of_a_batch_as_asked(archive: Any) -> None:
    path = archive(x=numbers(5))
    assert [batch.rows for batch in open_data(path, ONE, batch=2)] == [2, 2, 1]
    assert open_data(path, ONE, batch=2).batches == 3
    assert all(batch.labels is None for batch in open_data(path, ONE))


def test_a_fixed_batch_leaves_the_rest_out_and_says_so(archive: Any) -> None:
    data = open_data(archive(x=numbers(7)), FIXED)
    assert [batch.inputs["x"].shape for batch in data] == [(3, 4), (3, 4)]
    assert list(data)[1].inputs["x"][0, 0] == 12
    assert data.batches == 2
    assert data.notes == ["left out 1 row: they fill no batch of 3, which the model's inputs fix"]
    assert [[batch.inputs["x"][0, 0] for batch in part] for part in data.split()] == [[0], [12]]


def test_a_fixed_batch_of_one_takes_row_by_row(archive: Any) -> None:
    data = open_data(archive(x=numbers(3)), {"x": Spec("x", (1, 4), "float32")})
    assert [batch.inputs["x"].tolist() for batch in data] == [[row] for row in numbers(3).tolist()]


def test_fewer_rows_than_the_fixed_batch_are_refused(archive: Any) -> None:
    with pytest.raises(UsageError, match=r"not one batch .*left out 2 rows"):
        list(open_data(archive(x=numbers(2)), FIXED))


def test_another_batch_than_the_fixed_one_is_refused(archive: Any) -> None:
    with pytest.raises(UsageError, match="a batch of 2 rows: the model's batch is fixed at 3"):
        open_data(archive(x=numbers(6)), FIXED, batch=2)


def test_inputs_without_a_common_batch_are_one_batch(archive: Any) -> None:
    inputs = ONE | {"scale": Spec("scale", (), "float32")}
    data = open_data(archive(x=numbers(50), scale=np.float32(2)), inputs)
    (batch,) = data
    assert batch.inputs["x"].shape == (50, 4)
    assert batch.inputs["scale"] == 2
    with pytest.raises(UsageError, match="no batch in common"):
        open_data("x.npz", inputs, batch=2)


@pytest.mark.parametrize("array", [np.asfortranarray(numbers(40)), numbers(40)[:, ::-1], numbers(40).astype(">f4")])
def test_any_memory_layout(archive: Any, array: Any) -> None:
    batches = list(open_data(archive(x=array), ONE))
    assert [batch.rows for batch in batches] == [32, 8]
    np.testing.assert_array_equal(np.concatenate([batch.inputs["x"] for batch in batches]), array)


def test_an_array_that_lacks_the_batch_axis_is_one_row(archive: Any) -> None:
    (batch,) = open_data(archive(x=numbers(1)[0], y=np.int64(7)), ONE)
    assert batch.inputs["x"].shape == (1, 4)
    assert batch.labels is not None
    assert batch.labels.tolist() == [7]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": numbers(2).astype(float)}, r"data.npz, rows 0 to 1: Input 'x' came as float64, expected float32"),
        ({"x": numbers(2)[:, :3]}, r"rows 0 to 1: Input 'x' came with shape 2 x 3, expected \? x 4: axis 1 must be 4"),
        ({"z": numbers(2)}, r"has no array 'x', an input of the model; it has 'z'"),
        ({"x": numbers(4), "labels": np.zeros(3)}, "rows differ: 4 of 'x', 3 of 'labels'"),
        ({"x": np.zeros((0, 4), np.float32)}, "holds not one batch"),
        ({"x": np.asarray([[None] * 4])}, "holds Python objects"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_lies(archive: Any, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(open_data(archive(**arrays), ONE))


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).normal(size=(4000, 4)).astype(np.float32))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(UsageError, match=r"is no \.npz"):
        list(open_data(str(path), ONE))


def test_an_archive_is_never_whole_in_memory(archive: Any) -> None:
    size = 64 << 20
    path = archive(x=np.zeros((size // 16, 4), np.float32))
    data = open_data(path, ONE, batch=1024)
    tracemalloc.start()
    try:
        rows = sum(batch.rows for batch in data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == size // 16
    assert peak < 4 << 20


def test_a_file_with_the_only_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", numbers(40))
    assert [batch.rows for batch in open_data(str(tmp_path / "x.npy"), ONE)] == [32, 8]
    with pytest.raises(
        UsageError, match=r"x\.npy gives arrays without a name, but the model's inputs are 'ids', 'mask'"
    ):
        open_data(str(tmp_path / "x.npy"), TWO)


def test_a_folder_of_rows_and_batches(tmp_path: Path) -> None:
    for number, rows in enumerate([20, 15, 5]):
        np.save(tmp_path / f"{number}.npy", numbers(rows))
    np.save(tmp_path / "9.npy", np.full(4, -1, np.float32))
    batches = list(open_data(str(tmp_path), ONE))
    assert [batch.rows for batch in batches] == [32, 9]
    expected = np.concatenate([numbers(20), numbers(15), numbers(5), np.full((1, 4), -1, np.float32)])
    np.testing.assert_array_equal(np.concatenate([batch.inputs["x"] for batch in batches]), expected)


def test_a_folder_for_each_input(tmp_path: Path) -> None:
    for name in ("ids", "mask", "labels"):
        (tmp_path / name).mkdir()
    for number, length in enumerate([5, 5, 9]):
        np.save(tmp_path / "ids" / f"{number}.npy", np.full((2, length), number))
        np.save(tmp_path / "mask" / f"{number}.npy", np.ones((2, length), np.float32))
        np.save(tmp_path / "labels" / f"{number}.npy", np.full(2, number))
    batches = list(open_data(str(tmp_path), TWO))
    assert [batch.inputs["ids"].shape for batch in batches] == [(4, 5), (2, 9)]
    assert [batch.labels.tolist() for batch in batches if batch.labels is not None] == [[0, 0, 1, 1], [2, 2]]


def test_a_folder_that_lacks_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file ids/\*.npy"):
        open_data(str(tmp_path), TWO)
    for name, file in (("ids", "a.npy"), ("ids", "b.npy"), ("mask", "a.npy")):
        (tmp_path / name).mkdir(exist_ok=True)
        np.save(tmp_path / name / file, np.zeros((1, 2)))
    with pytest.raises(UsageError, match=r"b.npy is not in all of them"):
        open_data(str(tmp_path), TWO)


@pytest.mark.parametrize("content", [b"", b"no array"])
def test_a_file_that_is_no_array_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(UsageError, match=r"x.npy is no .npy file of plain numbers"):
        list(open_data(str(tmp_path), ONE))


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        open_data(str(tmp_path / "calib.npz"), ONE)

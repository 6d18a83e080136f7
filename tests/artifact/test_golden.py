"""Golden data on disk: every type comes back, and the same arrays give the same bytes."""

from __future__ import annotations

import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from gelu_deploy.artifact import golden
from gelu_deploy.artifact.golden import Case

NUMBERS = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
ARRAYS = {
    "a/b": NUMBERS.astype(ml_dtypes.bfloat16),
    "input:0": NUMBERS.astype(ml_dtypes.float8_e4m3fn),
    "file": NUMBERS.astype(">f4"),
    "scalar": np.array(3.5),
    "x.npy": np.asfortranarray(NUMBERS),
    "empty": np.zeros((0, 4), np.int64),
    "flag": np.array([True, False]),
    "word": np.array(["a", "bc"], dtype=object),
}


def test_every_type_comes_back(tmp_path: Path) -> None:
    golden.write(tmp_path / "golden.npz", [Case(ARRAYS, {"y": NUMBERS}), Case({}, {"y": NUMBERS}, {"y": -NUMBERS})])
    first, second = golden.read(tmp_path / "golden.npz")
    assert list(first.inputs) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(first.inputs[name], array, err_msg=name)
    types = [array.dtype.name for array in first.inputs.values()]
    assert types == ["bfloat16", "float8_e4m3fn", "float32", "float64", "float32", "int64", "bool", "str64"]
    np.testing.assert_array_equal(first.expected["y"], NUMBERS)
    np.testing.assert_array_equal(second.outputs["y"], NUMBERS)
    np.testing.assert_array_equal(second.expected["y"], -NUMBERS)


def test_any_numpy_opens_it(tmp_path: Path) -> None:
    golden.write(tmp_path / "golden.npz", [Case(ARRAYS, {"y": NUMBERS})])
    with np.load(tmp_path / "golden.npz") as archive:
        assert archive["0/in:bfloat16/a/b"].dtype == np.uint16
        np.testing.assert_array_equal(archive["0/out/y"], NUMBERS)


def test_the_same_arrays_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden.write(tmp_path / "a", [Case(ARRAYS, {})])
    monkeypatch.setattr(time, "time", lambda: 2e9)
    golden.write(tmp_path / "b", [Case(ARRAYS, {})])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

"""Example inputs as a person gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gelu_deploy.errors import UsageError
from gelu_deploy.originals.inputs import DTYPES, Wanted, arrays, wanted


def test_wanted_inputs_by_name() -> None:
    assert wanted(["x:1x3x224x224:float16", "ids:2x8:int64", "t:scalar", "e:0"]) == {
        "x": Wanted((1, 3, 224, 224), "float16"),
        "ids": Wanted((2, 8), "int64"),
        "t": Wanted((), "float32"),
        "e": Wanted((0,), "float32"),
    }
    assert wanted([]) == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_that_is_offered_is_taken(dtype: str) -> None:
    assert wanted([f"x:2:{dtype}"])["x"].dtype == dtype


@pytest.mark.parametrize(
    "text",
    ["", "x", ":2x3", "x:2x3:float31", "x:2x3:float32:more", "x:2xN:float32", "x:-1x3", "x:2,3", "x:", "x:x", "x:2x"],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME:SHAPE:DTYPE, for example x:1x3x224x224:float32"):
        wanted([text])


def test_arrays_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3)), labels=np.arange(2))
    found = arrays(str(tmp_path / "x.npz"))
    assert {name: array.shape for name, array in found.items()} == {"x": (2, 3), "labels": (2,)}
    assert arrays(None) == {}


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 cut off", b"\x93NUMPY\x01\x00cut"])
def test_files_of_another_kind_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.npz is no \.npz or \.npy file of plain arrays: "):
        arrays(str(tmp_path / "x.npz"))


def test_one_array_alone_a_folder_and_a_pickle_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones(3))
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    with pytest.raises(UsageError, match=r"one\.npy is one array without a name"):
        arrays(str(tmp_path / "one.npy"))
    with pytest.raises(UsageError, match=r"objects\.npz .* holds Python objects, not numbers"):
        arrays(str(tmp_path / "objects.npz"))
    for name in ("none.npz", "."):
        with pytest.raises(UsageError, match="cannot be read: "):
            arrays(str(tmp_path / name))


def test_an_input_said_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="--input: 'x' is given twice"):
        wanted(["x:2x3", "x:2x4"])


def test_a_name_may_hold_a_colon() -> None:
    assert wanted(["serving:x:2x3:float16"]) == {"serving:x": Wanted((2, 3), "float16")}

"""Folders of pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gelu_deploy.data import open_data
from gelu_deploy.errors import SetupError, UsageError
from gelu_deploy.runtime.feeds import Spec


def spec(*shape: int | str, dtype: str = "float32") -> dict[str, Spec]:
    return {"image": Spec("image", shape, dtype)}


def picture(path: Path, colour: tuple[int, int, int] = (255, 0, 51), size: tuple[int, int] = (6, 4)) -> None:
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def test_subfolders_are_classes(tmp_path: Path) -> None:
    picture(tmp_path / "dog" / "a.bmp", (0, 0, 255))
    picture(tmp_path / "cat" / "b.png")
    picture(tmp_path / "cat" / "a.png", (0, 255, 0))
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    data = open_data(str(tmp_path), spec("n", 3, 4, 6))
    (batch,) = data
    assert batch.labels is not None
    assert batch.labels.tolist() == [0, 0, 1]
    assert batch.inputs["image"].shape == (3, 3, 4, 6)
    assert batch.inputs["image"].dtype == np.float32
    np.testing.assert_array_equal(batch.inputs["image"][1, :, 0, 0], np.asarray([1, 0, 0.2], np.float32))
    assert batch.inputs["image"][0, 1].min() == batch.inputs["image"][2, 2].min() == 1
    assert data.notes == ["pictures as RGB, 6 x 4 pixels (width x height), float32 in [0, 1], no mean taken off"]
    assert data.batches == 1


@pytest.mark.parametrize(
    ("shape", "dtype", "expected", "value"),
    [
        (("n", 3, 8, 8), "float32", (1, 3, 8, 8), 1),
        (("n", 8, 8, 3), "float32", (1, 8, 8, 3), 1),
        (("n", 1, 2, "width"), "float32", (1, 1, 2, 6), None),
        (("n", "h", "w", 3), "float32", (1, 4, 6, 3), 1),
        ((1, 3, 2, 2), "uint8", (1, 3, 2, 2), 255),
    ],
)
def test_as_the_model_takes_them(
    tmp_path: Path, shape: tuple[int | str, ...], dtype: str, expected: tuple[int, ...], value: float | None
) -> None:
    picture(tmp_path / "one.png", (255, 255, 255) if value else (10, 10, 10))
    (batch,) = open_data(str(tmp_path), spec(*shape, dtype=dtype))
    array = batch.inputs["image"]
    assert (array.shape, array.dtype, batch.labels) == (expected, np.dtype(dtype), None)
    assert (array == (value or np.float32(10 / 255))).all()


def test_rows_and_columns_are_not_mixed_up(tmp_path: Path) -> None:
    pixels = np.zeros((2, 3, 3), np.uint8)
    pixels[1, 2] = (10, 20, 30)
    Image.fromarray(pixels).save(tmp_path / "one.png")
    (batch,) = open_data(str(tmp_path), spec("n", 3, "h", "w", dtype="uint8"))
    np.testing.assert_array_equal(batch.inputs["image"][0], np.moveaxis(pixels, -1, 0))


def test_pictures_of_their_own_size_are_batched_while_it_stays(tmp_path: Path) -> None:
    for name, size in (("a", (4, 4)), ("b", (4, 4)), ("c", (8, 4))):
        picture(tmp_path / f"{name}.png", size=size)
    data = open_data(str(tmp_path), spec("n", 3, "h", "w"))
    assert [batch.inputs["image"].shape for batch in data] == [(2, 3, 4, 4), (1, 3, 4, 8)]
    assert data.batches is None


@pytest.mark.parametrize("shape", [("n", 768), ("n", "c", 8, 8), ("n", 4, 8, 8)])
def test_a_model_that_takes_no_pictures_is_refused(tmp_path: Path, shape: tuple[int | str, ...]) -> None:
    picture(tmp_path / "a.png")
    with pytest.raises(UsageError, match="A folder of pictures fits a model with one input of 1 or 3 channels"):
        open_data(str(tmp_path), spec(*shape))


def test_a_file_that_is_no_picture_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    with pytest.raises(UsageError, match=r"a\.png cannot be read as a picture"):
        list(open_data(str(tmp_path), spec("n", 3, 4, 4)))


def test_without_pillow_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SetupError, match=r"pip install 'gelu-deploy\[images\]'"):
        list(open_data(str(tmp_path), spec("n", 3, 4, 4)))

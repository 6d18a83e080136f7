"""Pictures as rows of a model's only input, each in its subfolder's class.

It knows Pillow, imported when the first picture is opened, and no other kind of data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from gelu_deploy.arrays import Array
from gelu_deploy.data.dataset import Batch
from gelu_deploy.data.shaping import Plan, fitted
from gelu_deploy.errors import SetupError, UsageError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp"}

Mode = Literal["L", "RGB"]


@dataclass(frozen=True)
class Picture:
    """A file, and the number of its class where subfolders name classes."""

    path: Path
    label: int | None


@dataclass(frozen=True)
class Frame:
    """How the model's input holds a picture.

    Attributes:
        input: Name of the input.
        mode: ``RGB`` or ``L``, grey.
        height: Rows of pixels, None where they are free.
        width: The same for columns.
        first: Whether channels come before height and width.
        dtype: ``float32``, values in [0, 1], or ``uint8``, values as they are.
    """

    input: str
    mode: Mode
    height: int | None
    width: int | None
    first: bool
    dtype: str

    def __str__(self) -> str:
        """What is done to each picture."""
        size = f"{self.width or 'own'} x {self.height or 'own'} pixels (width x height)"
        values = "float32 in [0, 1], no mean taken off" if self.dtype == "float32" else "uint8"
        return f"pictures as {'RGB' if self.mode == 'RGB' else 'grey'}, {size}, {values}"


def listed(folder: Path) -> list[Picture]:
    """The pictures of a folder by name, or of its subfolders, whose sorted names are the classes; empty without any."""
    flat = _pictures(folder)
    if flat:
        return [Picture(path, None) for path in flat]
    classes = [found for sub in sorted(folder.iterdir()) if sub.is_dir() and (found := _pictures(sub))]
    return [Picture(path, label) for label, found in enumerate(classes) for path in found]


def frame(wanted: Plan) -> Frame:
    """How the model's only input holds a picture. Raises UsageError when it is no picture."""
    if len(wanted.inputs) == 1:
        spec = next(iter(wanted.inputs.values()))
        if wanted.batched and len(spec.shape) == 4 and spec.dtype in ("float32", "uint8"):
            for first, place in ((True, 1), (False, 3)):
                if spec.shape[place] in (1, 3):
                    mode: Mode = "RGB" if spec.shape[place] == 3 else "L"
                    height, width = spec.shape[2:] if first else spec.shape[1:3]
                    return Frame(spec.name, mode, _size(height), _size(width), first, spec.dtype)
    came = ", ".join(f"{name} {spec}" for name, spec in wanted.inputs.items()) or "none"
    raise UsageError(
        f"A folder of pictures fits a model with one input of 1 or 3 channels, N x C x H x W or N x H x W x C, float32 "
        f"or uint8; the inputs are {came}. Give arrays in an .npz file, or a function: FILE.py:NAME."
    )


def read(pictures: list[Picture], shown: Frame, wanted: Plan) -> Iterator[Batch]:
    """One row for each picture. Raises SetupError without Pillow, UsageError for a file that is no picture."""
    for picture in pictures:
        array = _pixels(picture.path, shown)
        labels = None if picture.label is None else np.asarray([picture.label])
        yield fitted(picture.path.name, {shown.input: array[None]}, labels, wanted)


def _pixels(path: Path, shown: Frame) -> Array:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise SetupError(
            "Pictures are read with Pillow, which is not installed: pip install 'gelu-deploy[images]'"
        ) from None
    try:
        with Image.open(path) as opened:
            image = opened.convert(shown.mode)
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"{path} cannot be read as a picture: {error}.") from None
    size = (shown.width or image.width, shown.height or image.height)
    image = image if image.size == size else image.resize(size, Image.Resampling.BILINEAR)
    array: Array = np.asarray(image).reshape(size[1], size[0], -1)
    array = array if shown.dtype == "uint8" else array.astype(np.float32) / np.float32(255)
    return np.moveaxis(array, -1, 0) if shown.first else array


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def _size(axis: int | str) -> int | None:
    return axis if isinstance(axis, int) else None

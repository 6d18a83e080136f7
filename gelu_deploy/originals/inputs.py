"""Example inputs as a person gives them: ``--data X.npz`` and ``--input x:1x3x224x224:float32``.

It knows no model: names and types are checked by whoever takes them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gelu_deploy.errors import UsageError
from gelu_deploy.originals.original import Arrays

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


class Wanted(NamedTuple):
    """Shape and type of an input to be made up."""

    shape: tuple[int, ...]
    dtype: str


def arrays(path: str | None) -> Arrays:
    """The arrays of an ``.npz``, by name. Raises UsageError when the file cannot be read as one."""
    if path is None:
        return {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise UsageError(f"--data {path}: no such file") from None
    except (OSError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise UsageError(f"--data {path}: expected an .npz with one array per input ({error})") from None


def wanted(texts: Iterable[str]) -> dict[str, Wanted]:
    """``--input NAME:SHAPE[:DTYPE]``, by name; float32 where no type is given. Raises UsageError."""
    return dict(_wanted(text) for text in texts)


def _wanted(text: str) -> tuple[str, Wanted]:
    parts = text.split(":")
    name, shape, dtype = [*parts, *["", "", "float32"][len(parts) :]][:3]
    sizes = [] if shape == "scalar" else shape.split("x")
    if len(parts) not in (2, 3) or not name or dtype not in DTYPES or not all(size.isdigit() for size in sizes):
        raise UsageError(
            f"--input {text}: expected NAME:SHAPE:DTYPE, for example x:1x3x224x224:float32 "
            f"(scalar for no axes; types: {', '.join(DTYPES)})"
        )
    return name, Wanted(tuple(int(size) for size in sizes), dtype)

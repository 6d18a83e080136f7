"""Example inputs as a person gives them: ``--data X.npz`` and ``--input x:1x3x224x224:float32``.

It knows no model: names and types are checked by whoever takes them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.errors import UsageError
from gelu_deploy.keywords import once
from gelu_deploy.source.sniff import some

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


class Wanted(NamedTuple):
    """Shape and type of an input to be made up."""

    shape: tuple[int, ...]
    dtype: str


def arrays(path: str | None) -> Arrays:
    """The arrays of an ``.npz``, by name. Raises UsageError when the file cannot be read as one."""
    if path is None:
        return {}
    with opened(path) as found:
        if isinstance(found, np.ndarray):
            raise UsageError(f"{path} is one array without a name; save it as one: numpy.savez('x.npz', NAME=array).")
        return dict(found)


@contextmanager
def opened(path: str) -> Generator[Array | Mapping[str, Array]]:
    """The arrays of an ``.npz``, each read when it is asked for, or the one of an ``.npy``. Raises UsageError."""
    try:
        with Path(path).open("rb") as file:
            _refuse_others(path, file)
            found = np.load(file, allow_pickle=False)
            yield found
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (EOFError, ValueError, zipfile.BadZipFile) as error:
        what = "an array in it holds Python objects, not numbers" if "Object arrays" in str(error) else error
        raise _no_arrays(path, f"{what}") from None


def _refuse_others(path: str, file: IO[bytes]) -> None:
    """Raise UsageError for a file that is neither a zip archive with arrays in it nor an array."""
    head = file.read(24)
    file.seek(0)
    if head.startswith(b"PK"):
        names = zipfile.ZipFile(file).namelist()
        file.seek(0)
        if any(name.endswith(".npy") for name in names):
            return
        raise _no_arrays(path, f"it is a zip archive of {some(names) or 'nothing'}")
    if not head.startswith(b"\x93NUMPY"):
        raise _no_arrays(path, f"it begins with {head!r}" if head else "it is empty")


def _no_arrays(path: str, why: str) -> UsageError:
    return UsageError(f"{path} is no .npz or .npy file of plain arrays: {why}. Expected what numpy.savez writes.")


def wanted(texts: Iterable[str]) -> dict[str, Wanted]:
    """``--input NAME:SHAPE[:DTYPE]``, by name; float32 where no type is given. Raises UsageError."""
    return once("--input", (_wanted(text) for text in texts))


def _wanted(text: str) -> tuple[str, Wanted]:
    place, _, last = text.rpartition(":")
    dtype = last if last in DTYPES else "float32"
    name, _, shape = (place if last in DTYPES else text).rpartition(":")
    sizes = [] if shape == "scalar" else shape.split("x")
    if not name or not all(size.isascii() and size.isdigit() for size in sizes):
        raise UsageError(
            f"--input {text}: expected NAME:SHAPE:DTYPE, for example x:1x3x224x224:float32 "
            f"(scalar for no axes; types: {', '.join(DTYPES)})"
        )
    return name, Wanted(tuple(int(size) for size in sizes), dtype)

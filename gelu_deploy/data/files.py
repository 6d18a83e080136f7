"""Arrays from ``.npz`` files, ``.npy`` files and folders of them, a few rows at a time.

It knows NumPy's formats and nothing of images or programs.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from gelu_deploy.arrays import Array
from gelu_deploy.data.dataset import Batch
from gelu_deploy.data.shaping import ROWS, Plan, fitted
from gelu_deploy.errors import UsageError
from gelu_deploy.originals.inputs import opened


@dataclass(frozen=True)
class _Member:
    """An array of an archive, its rows still to be read."""

    stream: IO[bytes]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, rows: int) -> Array:
        """The next rows."""
        shape = (rows, *self.shape[1:])
        wanted = int(np.prod(shape)) * self.dtype.itemsize
        data = self.stream.read(wanted)
        if len(data) != wanted:
            raise EOFError("it ends in the middle of an array")
        return np.frombuffer(data, self.dtype).reshape(shape)


def archive(path: Path, wanted: Plan) -> Iterator[Batch]:
    """Pieces of an ``.npz``: one array per input, rows along the first axis, and labels.

    Rows are read from the archive as they are needed, compressed ones too; an array in Fortran order is read whole.
    """
    with _archive(path) as found:
        label = _label(found, wanted)
        try:
            yield from _pieces(path.name, found, label, wanted)
        except zlib.error as error:
            raise ValueError(f"{error}") from None


def contents(path: Path, wanted: Plan) -> tuple[int | None, list[str]]:
    """Rows of an ``.npz``, where that is known, and the names in it that are neither inputs nor labels.

    Raises UsageError where an input is not there.
    """
    with _archive(path) as found, ExitStack() as stack:
        label = _label(found, wanted)
        missing = [name for name in wanted.inputs if name not in found]
        if missing:
            has = ", ".join(map(repr, found)) or "none"
            raise UsageError(f"{path} has no array {missing[0]!r}, an input of the model; it has {has}.")
        unknown = [name for name in found if name not in wanted.inputs and name != label]
        member = next((_member(found, name, stack) for name in wanted.inputs if name in found), None)
        return (member.shape[0] if member and wanted.batched else None), unknown


def folder(files: list[dict[str, Path]], wanted: Plan) -> Iterator[Batch]:
    """Pieces of a folder of ``.npy`` files, each one row or one batch; only the rows in use are in memory."""
    for group in files:
        arrays = {name: _mapped(path) for name, path in group.items()}
        labels = next((arrays.pop(name) for name in wanted.labels if name in arrays), None)
        yield from _cut(next(iter(group.values())).name, arrays, labels, wanted)


def listed(path: Path, wanted: Plan) -> list[dict[str, Path]]:
    """The files of each piece, by input: ``INPUT/*.npy``, or ``*.npy`` for the only input; ``labels/*.npy`` if there.

    Raises:
        UsageError: An input has no files, or other ones than its neighbour.
    """
    flat = sorted(path.glob("*.npy"))
    if flat:
        name = only(wanted, path.name)
        return [{name: file} for file in flat]
    label = next((name for name in wanted.labels if (path / name).is_dir()), None)
    names = [*wanted.inputs, *([label] if label else [])]
    files = {name: {file.name: file for file in sorted((path / name).glob("*.npy"))} for name in names}
    first = next(iter(files.values()))
    for name, found in files.items():
        strange = sorted(set(found) ^ set(first))
        if not found or strange:
            lack = f"{strange[0]} is not in all of them" if found else f"there is no file {name}/*.npy"
            plain = ".npy files or pictures in it, or " if len(wanted.inputs) == 1 else ""
            raise UsageError(
                f"{path}: {lack}. Expected {plain}a folder for each input, {', '.join(names)}, and in each .npy files "
                "of the same names."
            )
    return [{name: found[file] for name, found in files.items()} for file in first]


def only(wanted: Plan, where: str) -> str:
    """The model's only input. Raises UsageError when it has several."""
    if len(wanted.inputs) != 1:
        names = ", ".join(map(repr, wanted.inputs))
        raise UsageError(
            f"{where} gives arrays without a name, but the model's inputs are {names}. Make a folder for each, or put "
            "one of each in an .npz file."
        )
    return next(iter(wanted.inputs))


@contextmanager
def _archive(path: Path) -> Generator[Mapping[str, Array]]:
    with opened(str(path)) as found:
        if isinstance(found, np.ndarray):
            raise UsageError(f"{path} is one array, as numpy.save writes it. Name it .npy, or use numpy.savez.")
        yield found


def _label(found: Mapping[str, Array], wanted: Plan) -> str | None:
    return next((name for name in wanted.labels if name in found), None)


def _pieces(where: str, found: Mapping[str, Array], label: str | None, wanted: Plan) -> Iterator[Batch]:
    names = [name for name in (*wanted.inputs, label) if name is not None and name in found]
    with ExitStack() as stack:
        members = {name: _member(found, name, stack) for name in names if wanted.batched}
        streams = {name: member for name, member in members.items() if member is not None}
        rows = {member.shape[0] for member in streams.values()}
        single = any(
            len(streams[name].shape) < len(spec.shape) for name, spec in wanted.inputs.items() if name in streams
        )
        if len(rows) != 1 or len(streams) < len(names) or single:
            arrays = {name: found[name] for name in names}
            yield from _cut(where, arrays, arrays.pop(label) if label else None, wanted)
            return
        total, step = rows.pop(), wanted.rows or ROWS
        for start in range(0, total, step):
            count = min(step, total - start)
            pieces = {name: stream.read(count) for name, stream in streams.items()}
            labels = pieces.pop(label) if label else None
            yield fitted(f"{where}, rows {start} to {start + count - 1}", pieces, labels, wanted)


def _member(found: Mapping[str, Array], name: str, stack: ExitStack) -> _Member | None:
    """The array as it lies in the archive, or None where it cannot be read by rows."""
    entries = getattr(found, "zip")  # noqa: B009, only NpzFile, which NumPy's types call a mapping, has it
    stream = stack.enter_context(entries.open(f"{name}.npy"))
    version = npy.read_magic(stream)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        return None
    shape, fortran, dtype = read(stream)
    plain = shape and not (fortran and len(shape) > 1) and not dtype.hasobject
    return _Member(stream, shape, dtype) if plain else None


def _mapped(path: Path) -> Array:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (EOFError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} is no .npy file of plain numbers: {error}.") from None
    if not isinstance(mapped, np.ndarray):
        raise UsageError(f"{path} holds several arrays; expected one, as numpy.save writes it.")
    return mapped


def _cut(where: str, arrays: Mapping[str, Array], labels: Array | None, wanted: Plan) -> Iterator[Batch]:
    """The arrays in pieces of a batch's size; whole where they are one row or have no batch in common."""
    rows = {len(array) for name, array in arrays.items() if array.ndim == len(wanted.inputs[name].shape) and array.ndim}
    if not wanted.batched or len(rows) != 1 or rows == {0}:
        yield fitted(where, arrays, labels, wanted)
        return
    step = wanted.rows or ROWS
    for start in range(0, rows.pop(), step):
        part = slice(start, start + step)
        pieces = {name: array[part] for name, array in arrays.items()}
        yield fitted(where, pieces, None if labels is None else labels[part], wanted)

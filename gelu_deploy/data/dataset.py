"""Batches that can be read any number of times, and split into what is fitted and what judges the fit.

It knows nothing of files, images or models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.errors import UsageError


@dataclass(frozen=True)
class Batch:
    """What one run takes, and what it should answer where that is known.

    Attributes:
        inputs: One array per input of the model, of its type and shape.
        labels: One per row, ``None`` where the data have none.
    """

    inputs: Arrays
    labels: Array | None = None

    @property
    def rows(self) -> int:
        """Size of the first axis of the first input; 1 where it has none."""
        first = next(iter(self.inputs.values()))
        return len(first) if first.ndim else 1

    def take(self, rows: slice | list[int]) -> Batch:
        """Some of the rows, of every input and of the labels."""
        labels = None if self.labels is None else self.labels[rows]
        return Batch({name: array[rows] for name, array in self.inputs.items()}, labels)


class Dataset:
    """Batches for a model, read anew from where they lie each time they are iterated.

    Args and attributes:
        name: What messages call it.
        read: Begins a new reading; no attribute.
        divisible: Whether a batch may be divided into rows.
        batches: Their number, where it is known without reading.
        notes: What was decided about the data, a line each; a reading may add some. Parts share it.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], Iterable[Batch]],
        *,
        divisible: bool,
        batches: int | None = None,
        notes: list[str] | None = None,
    ) -> None:
        self.name = name
        self.batches = batches
        self.notes = [] if notes is None else notes
        self._read = read
        self.divisible = divisible

    def __iter__(self) -> Iterator[Batch]:
        """Read the data. Raises UsageError when they are none, or do not fit the model."""
        empty = True
        for batch in self._read():
            empty = False
            yield batch
        if empty:
            why = f" ({self.notes[-1]})" if self.notes else ""
            raise UsageError(f"{self.name} holds not one batch{why}. Give at least as many rows as one needs.")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names, types, shapes and contents of all batches, in hexadecimal; reads the data once."""
        total = hashlib.sha256()
        for batch in self:
            labels = {} if batch.labels is None else {"": batch.labels}
            for name, array in (batch.inputs | labels).items():
                total.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
                total.update(_bytes(array))
        return total.hexdigest()

    def split(self, every: int = 4) -> tuple[Dataset, Dataset]:
        """What to fit and what to judge the fit by: every so many batches, one is held out.

        Where there are fewer batches than that, rows are divided in the same proportion, at least one held out; where
        batches cannot be divided, the last one is held out. A single row, or batch that cannot be divided, is both.
        """
        rows = [batch.rows for batch in islice(self, every)]
        if len(rows) == every or (len(rows) > 1 and not self.divisible):
            step = len(rows)
            return self._part("fitted", _batches, step), self._part("held out", _held_batches, step)
        if sum(rows) > 1 and self.divisible:
            step = min(every, sum(rows))
            return self._part("fitted", _rows, step), self._part("held out", _held_rows, step)
        note = f"{self.name} is a single {'row' if rows == [1] else 'batch'}: what is fitted to it is judged by it too"
        if note not in self.notes:
            self.notes.append(note)
        return self, self

    def _part(self, kind: str, choose: Callable[[Iterable[Batch], int], Iterator[Batch]], step: int) -> Dataset:
        return Dataset(f"{self.name} ({kind})", lambda: choose(self, step), divisible=self.divisible, notes=self.notes)


def _batches(batches: Iterable[Batch], step: int) -> Iterator[Batch]:
    return (batch for number, batch in enumerate(batches, 1) if number % step)


def _held_batches(batches: Iterable[Batch], step: int) -> Iterator[Batch]:
    return (batch for number, batch in enumerate(batches, 1) if not number % step)


def _rows(batches: Iterable[Batch], step: int) -> Iterator[Batch]:
    return _some_rows(batches, lambda row: row % step != 0)


def _held_rows(batches: Iterable[Batch], step: int) -> Iterator[Batch]:
    return _some_rows(batches, lambda row: row % step == 0)


def _some_rows(batches: Iterable[Batch], wanted: Callable[[int], bool]) -> Iterator[Batch]:
    """Rows are counted from 1 through all batches."""
    before = 1
    for batch in batches:
        rows = [row for row in range(batch.rows) if wanted(before + row)]
        before += batch.rows
        if rows:
            yield batch.take(rows)


def _bytes(array: Array) -> bytes:
    if array.dtype.kind in "OU":
        return "\0".join(map(str, array.ravel().tolist())).encode()
    return array.tobytes()

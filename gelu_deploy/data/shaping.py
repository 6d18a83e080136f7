"""How pieces of data become batches that a model takes: names, types and shapes checked, rows gathered or divided.

It knows NumPy and the model's inputs, and not where data come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.data.dataset import Batch
from gelu_deploy.errors import UsageError
from gelu_deploy.runtime.feeds import Spec, checked

ROWS = 32
"""Rows of a batch where neither the model nor the person says how many."""

LABELS = ("labels", "label", "y", "target")
"""Names under which labels are looked for, where no input has them."""


@dataclass(frozen=True)
class Plan:
    """What a batch must be.

    Attributes:
        inputs: The model's inputs; their first axis is free where it is the batch.
        rows: Rows of a batch: as many as the person or the model says; 0: as files and programs give them.
        fixed: Whether the model takes no other number of rows.
        batched: Whether the first axis of every input is the batch.
    """

    inputs: Mapping[str, Spec]
    rows: int
    fixed: bool
    batched: bool

    @property
    def divisible(self) -> bool:
        """Whether a batch may be divided into rows."""
        return self.batched and not self.fixed

    @property
    def labels(self) -> tuple[str, ...]:
        """Names under which labels may lie."""
        return tuple(name for name in LABELS if name not in self.inputs)


def plan(inputs: Mapping[str, Spec], batch: int | None) -> Plan:
    """What a batch must be. Raises UsageError when ``batch`` is a number of rows that the model does not take."""
    if batch is not None and batch < 1:
        raise UsageError(f"a batch of {batch} rows: expected at least one")
    sizes = {spec.shape[0] if spec.shape else None for spec in inputs.values()}
    fixed = next(iter(sizes)) if len(sizes) == 1 else None
    size = fixed if isinstance(fixed, int) else None
    batched = size is not None or all(isinstance(one, str) for one in sizes)
    if batch is not None and not batched:
        raise UsageError(f"a batch of {batch} rows: the inputs {', '.join(map(repr, inputs))} have no batch in common")
    if batch is not None and size is not None and batch != size:
        raise UsageError(f"a batch of {batch} rows: the model's batch is fixed at {size}")
    loose = {name: replace(spec, shape=("?", *spec.shape[1:])) for name, spec in inputs.items()} if batched else inputs
    return Plan(loose, size or batch or 0, size is not None, batched)


def fitted(where: str, found: Mapping[str, Any], labels: Any, wanted: Plan) -> Batch:
    """The arrays as a batch; where the batch axis is missing they are one row.

    Raises:
        UsageError: An input is missing or of another type or shape, or numbers of rows differ.
    """
    given = {name: _with_batch(found[name], wanted.inputs[name], wanted) for name in wanted.inputs if name in found}
    try:
        inputs = checked(given or dict(found), wanted.inputs)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    made = None if labels is None else np.asarray(labels)
    made = made if made is None or made.ndim else made.reshape(1)
    if wanted.batched:
        _same_rows(where, inputs | ({} if made is None else {"labels": made}))
    return Batch(inputs, made)


def regrouped(pieces: Iterable[Batch], wanted: Plan, notes: list[str]) -> Iterator[Batch]:
    """Batches of as many rows as are wanted, where neighbouring pieces have the same shapes; the last may have fewer.

    A model whose batch is fixed never sees an incomplete one: it is left out, with a note.
    """
    if not wanted.rows:
        yield from pieces
        return
    waiting, lost = list[Batch](), 0
    for piece in pieces:
        if waiting and _kind(piece) != _kind(waiting[0]):
            lost += sum(one.rows for one in waiting)
            yield from () if wanted.fixed else (_joined(waiting),)
            waiting = []
        waiting.append(piece)
        if sum(one.rows for one in waiting) >= wanted.rows:
            whole = _joined(waiting)
            end = whole.rows - whole.rows % wanted.rows
            yield from (whole.take(slice(at, at + wanted.rows)) for at in range(0, end, wanted.rows))
            waiting = [whole.take(slice(end, None))] if end < whole.rows else []
    if waiting and not wanted.fixed:
        yield _joined(waiting)
    lost += sum(one.rows for one in waiting)
    note = f"left out {lost} row{'s' * (lost != 1)}: they fill no batch of {wanted.rows}, which the model's inputs fix"
    if wanted.fixed and lost and note not in notes:
        notes.append(note)


def _with_batch(value: Any, spec: Spec, wanted: Plan) -> Any:
    try:
        array = np.asanyarray(value)
    except (TypeError, ValueError, RuntimeError):
        return value  # the check says what it is
    return array[None] if wanted.batched and array.ndim == len(spec.shape) - 1 else array


def _same_rows(where: str, arrays: Arrays) -> None:
    rows = {name: len(array) for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        came = ", ".join(f"{count} of {name!r}" for name, count in rows.items())
        raise UsageError(f"{where}: rows differ: {came}. Every row needs one of each.")


def _kind(piece: Batch) -> object:
    labels = None if piece.labels is None else piece.labels.shape[1:]
    return labels, [(array.dtype, array.shape[1:]) for array in piece.inputs.values()]


def _joined(pieces: Sequence[Batch]) -> Batch:
    if len(pieces) == 1:
        return pieces[0]
    labels: list[Array] = [piece.labels for piece in pieces if piece.labels is not None]
    inputs = {name: np.concatenate([piece.inputs[name] for piece in pieces]) for name in pieces[0].inputs}
    return Batch(inputs, np.concatenate(labels) if labels else None)

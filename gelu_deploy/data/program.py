"""Data from a person's own code: ``FILE.py:NAME``, something that can be iterated or a function that makes it.

It knows nothing of files of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from gelu_deploy import target
from gelu_deploy.data.dataset import Batch
from gelu_deploy.data.shaping import Plan, fitted
from gelu_deploy.errors import GeluDeployError, TargetError, UsageError

_END = object()


def reader(text: str, wanted: Plan) -> Callable[[], Iterator[Batch]]:
    """What begins a new reading of ``text``; each item becomes a batch, or a row where it lacks the batch axis.

    An item is a mapping of arrays by input, a tuple or list of arrays in the order of the inputs, or the array of the
    only input; labels come as one more entry, ``(inputs, labels)``, or in a mapping under ``labels`` and the like.

    Raises:
        TargetError: There is no such file, module or name; when read: the code fails.
        UsageError: It can be iterated only once, or not at all; when read: an item does not fit the model.
    """
    made = target.load(text)
    if isinstance(made, Iterator):
        raise UsageError(f"{text} can be read only once. Name the function that makes it, not what it made.")
    if not callable(made) and not isinstance(made, Iterable):
        raise UsageError(f"{text} is a {type(made).__name__}: expected a function or something that can be iterated.")
    return lambda: _batches(text, made, wanted)


def _batches(text: str, made: Any, wanted: Plan) -> Iterator[Batch]:
    for number, item in enumerate(_items(text, made), 1):
        yield _batch(f"batch {number} of {text}", item, wanted)


def _items(text: str, made: Any) -> Iterator[Any]:
    """What the code gives, one by one; what lies beside it can be imported while it runs, and only then."""
    number, items = 0, iter(())
    while True:
        try:
            with target.importable(target.split(text)[0]):
                items = items if number else _started(made)
                item = next(items, _END)
        except GeluDeployError:
            raise
        except Exception as error:
            raise TargetError(f"{text} failed in batch {number + 1}: {type(error).__name__}: {error}") from error
        if item is _END:
            return
        number += 1
        yield item


def _started(made: Any) -> Iterator[Any]:
    found = made() if callable(made) and not isinstance(made, Iterable) else made
    several: Any = [found] if isinstance(found, (Mapping, np.ndarray)) else found
    return iter(several)


def _batch(where: str, item: Any, wanted: Plan) -> Batch:
    inputs, labels = _parts(item, wanted)
    if isinstance(inputs, Mapping):
        label = next((name for name in wanted.labels if name in inputs), None) if labels is None else None
        given = {name: inputs[name] for name in wanted.inputs if name in inputs}
        return fitted(where, given or dict(inputs), inputs[label] if label else labels, wanted)
    arrays = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    if len(arrays) != len(wanted.inputs):
        names = ", ".join(map(repr, wanted.inputs)) or "none"
        raise UsageError(f"{where}: {len(arrays)} arrays came, the model's inputs are {names}. Give a dict of arrays.")
    return fitted(where, dict(zip(wanted.inputs, arrays, strict=True)), labels, wanted)


def _parts(item: Any, wanted: Plan) -> tuple[Any, Any]:
    """Inputs and labels of an item."""
    if not isinstance(item, (tuple, list)):
        return item, None
    if len(item) == 2 and isinstance(item[0], (Mapping, tuple, list)):
        return item[0], item[1]
    if len(item) == len(wanted.inputs) + 1:
        return tuple(item[:-1]), item[-1]
    return tuple(item), None

"""The inputs on which parity is proved: which axes are free, and at which sizes the original runs.

It knows neither torch nor a runtime: it asks the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gelu_deploy.arrays import Array, Arrays, describe
from gelu_deploy.artifact.golden import Case
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.originals.original import Original

BATCH = "batch"
BATCHES = (1, 2, 3)
"""Sizes of the batch that are proved; 1 and 2 are special to exporters, 3 is not."""

GROWTH = (1, 2, 8, 16, 32, 64)
"""Added to the size of another free axis, in this order, until the original runs at the new size."""

Axes = Mapping[str, Mapping[int, str]]
"""Free axes, ``{input: {axis: name}}``."""


def free_axes(examples: Arrays, dynamic: Iterable[str], *, batch: bool) -> dict[str, dict[int, str]]:
    """Free axes from ``--dynamic INPUT:AXIS=NAME``, and the first axis of every input that has the first input's size.

    Raises UsageError for an input or an axis that is not there.
    """
    axes: dict[str, dict[int, str]] = {name: {} for name in examples}
    first = next((array.shape[0] for array in examples.values() if array.ndim), None)
    if batch:
        for name, array in examples.items():
            if array.ndim and array.shape[0] == first:
                axes[name][0] = BATCH
    for text in dynamic:
        name, axis, label = _dynamic(text)
        if name not in examples:
            raise UsageError(f"--dynamic {text}: there is no input {name!r}; the inputs are {', '.join(examples)}")
        if not -examples[name].ndim <= axis < examples[name].ndim:
            raise UsageError(f"--dynamic {text}: {name} is {describe(examples[name])}, it has no axis {axis}")
        axes[name][axis % examples[name].ndim] = label
    return axes


def prove(original: Original, axes: Axes) -> list[Case]:
    """The cases for these free axes: the original as given, at three batch sizes, and at another size of each axis.

    Raises ModelError when the original runs at no other size of an axis that is to be free.
    """
    own = {label: original.examples[name].shape[axis] for name, free in axes.items() for axis, label in free.items()}
    cases = [_first(original, axes, own)]
    for label, given in own.items():
        if label == BATCH:
            cases += [_case(original, axes, {**own, label: size}) for size in BATCHES if size != given]
        else:
            cases.append(_grown(original, axes, own, label))
    return cases


def _first(original: Original, axes: Axes, own: Mapping[str, int]) -> Case:
    """The case of the examples themselves, which must prove something."""
    try:
        case = _case(original, axes, own)
    except ModelError as error:
        what = str(error).rstrip(".")
        raise ModelError(f"{what}; if other inputs would do, give them with --input or --data") from error
    given = ", ".join(f"{name} {describe(array)}" for name, array in case.inputs.items())
    text = [name for name, array in (*case.inputs.items(), *case.outputs.items()) if array.dtype.kind in "OSU"]
    if text:
        raise ModelError(f"{text[0]} holds strings; only networks of numbers can be compared")
    if not any(array.size for array in case.outputs.values()):
        raise UsageError(f"for {given} every output is empty, which proves nothing; give inputs with elements")
    if not any(_has_numbers(array) for array in case.outputs.values()):
        raise ModelError(f"for {given} every output is NaN or infinite, which proves nothing; give other inputs")
    return case


def _has_numbers(array: Array) -> bool:
    return bool(array.size) and (array.dtype.kind not in "fV" or bool(np.isfinite(array).any()))


def refused(original: Original, axes: Axes) -> str:
    """Why the batch cannot be free: what the original says at another batch size; ``""`` if it runs."""
    sizes = {BATCH: 3}
    try:
        _case(original, {name: {a: n for a, n in free.items() if n == BATCH} for name, free in axes.items()}, sizes)
    except ModelError as error:
        return str(error)
    return ""


def _grown(original: Original, axes: Axes, own: Mapping[str, int], label: str) -> Case:
    reasons = list[str]()
    for more in GROWTH:
        try:
            return _case(original, axes, {**own, label: own[label] + more})
        except ModelError as error:
            reasons.append(str(error))
    raise ModelError(
        f"axis {label!r} was asked to be free, but the network itself runs at no other size than {own[label]} "
        f"(tried {', '.join(str(own[label] + more) for more in GROWTH)}): {reasons[0]}"
    )


def _case(original: Original, axes: Axes, sizes: Mapping[str, int]) -> Case:
    inputs = {
        name: np.ascontiguousarray(resized(array, axes.get(name, {}), sizes))
        for name, array in original.examples.items()
    }
    return Case(inputs, original.run(inputs))


def resized(array: np.ndarray, free: Mapping[int, str], sizes: Mapping[str, int]) -> np.ndarray:
    """``array`` cut or repeated along its free axes."""
    for axis, label in free.items():
        if label in sizes and array.shape[axis]:
            array = np.take(array, np.arange(sizes[label]) % array.shape[axis], axis=axis)
    return array


def _dynamic(text: str) -> tuple[str, int, str]:
    place, equals, label = text.partition("=")
    name, _, axis = place.rpartition(":")
    if not (name and axis.lstrip("-").isdigit() and (label.isidentifier() or not equals)):
        raise UsageError(f"--dynamic {text}: expected INPUT:AXIS=NAME, for example x:1=seq")
    return name, int(axis), label or f"{name}_{axis}"

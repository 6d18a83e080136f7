"""What answers are scored by: top-1, or a function of the user's own, whose answer is checked whenever it is called.

It knows nothing of models, of data files, or of how sure one can be of a score.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gelu_deploy import target
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.errors import GeluDeployError, TargetError, UsageError
from gelu_deploy.scoring import examples
from gelu_deploy.scoring.metrics import predictions

Score = Callable[[Arrays, Array | None, Arrays], Array]
"""Outputs, labels and inputs of a batch to float64 ``[rows]`` or ``[rows, 2]``."""


@dataclass(frozen=True)
class Metric:
    """How answers are scored.

    Attributes:
        name: ``top1``, ``perplexity``, ``cer``, or ``FILE.py:NAME``.
        score: A number for each row of a batch, whose mean is the metric, or a numerator and a denominator for each,
            whose sums' ratio is the metric; in each case before ``finish``. A row of 0 and 0 does not count.
        higher_is_better: Which way it runs.
        percent: Whether it is a share, to be shown in percent.
        needs_labels: Whether there is no score without labels.
        finish: Makes the metric of the mean or ratio; it never falls, or never rises.
    """

    name: str
    score: Score
    higher_is_better: bool = True
    percent: bool = False
    needs_labels: bool = False
    finish: Callable[[float], float] = float


def top1(outputs: Arrays, labels: Array, inputs: Arrays) -> Array:  # noqa: ARG001  # what every metric is given
    """Right answers and answers asked for in each row, float64 ``[rows, 2]``.

    Args:
        outputs: The first is ``[rows, ..., classes]``; an answer with a NaN is wrong.
        labels: True classes ``[rows, ...]``, whole numbers; below 0 is padding, which does not count.
        inputs: Not looked at.

    Raises:
        UsageError: The first output has no classes, or the labels are not of them.
    """
    first = next(iter(outputs.values()))
    if first.ndim < 2 or first.shape[-1] < 2:
        raise UsageError(
            f"top1 takes the class with the largest number on the last axis of the first output, which came with shape "
            f"{first.shape}; give a metric of your own: --metric FILE.py:NAME"
        )
    if labels.dtype.kind not in "biuf" or np.any(labels != np.round(labels)):
        raise UsageError(f"labels came as {labels.dtype} that are no numbers of classes; expected 0, 1, 2, ...")
    if labels.shape != first.shape[:-1]:
        raise UsageError(f"labels came with shape {labels.shape}, the first output asks for {first.shape[:-1]}")
    if labels.max(initial=0) >= first.shape[-1]:
        raise UsageError(
            f"label {labels.max():g} came, but the first output has the classes 0 to {first.shape[-1] - 1}; "
            f"count classes from 0, and give padding as -1"
        )
    asked = labels >= 0
    right = asked & (predictions(first) == labels)
    return np.stack([one.reshape(len(one), -1).sum(axis=1, dtype=np.float64) for one in (right, asked)], axis=1)


top1.percent = True  # type: ignore[attr-defined]  # any function may carry attributes
top1.needs_labels = True  # type: ignore[attr-defined]  # the same

BUILT_IN: dict[str, Callable[..., Array]] = {"top1": top1, "perplexity": examples.perplexity, "cer": examples.cer}
FLAGS = ("higher_is_better", "percent", "needs_labels")


def named(text: str) -> Metric:
    """The metric of that name, or the one that a function of the user's is.

    A function takes ``outputs`` and ``inputs``, arrays of a batch by name, and ``labels`` between them, None where the
    data have none. What it returns is as in :class:`Metric`, whose other attributes it may carry itself, as those in
    :mod:`gelu_deploy.scoring.examples` do. ``score`` gives float64 ``[rows, 2]`` for every metric made here, and raises
    UsageError for what is not finite or not of that shape.

    Raises:
        TargetError: There is no such metric, file or name.
        UsageError: It is not a function of three arguments, or carries what is no attribute of a metric's.
    """
    if text not in BUILT_IN and ":" not in text:
        raise TargetError(f"no metric {text!r}: expected {', '.join(BUILT_IN)}, or FILE.py:NAME of a function")
    function = BUILT_IN.get(text) or target.load(text)
    try:
        inspect.signature(function).bind({}, None, {})
    except (TypeError, ValueError) as error:
        raise UsageError(f"metric {text}: expected a function of (outputs, labels, inputs); {error}") from None
    flags = {name: getattr(function, name, name == "higher_is_better") for name in FLAGS}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise UsageError(f"metric {text}: {name} is {flag!r}, expected True or False")
    finish = getattr(function, "finish", float)
    if not callable(finish):
        raise UsageError(f"metric {text}: finish is {finish!r}, expected a function of a number")
    score = partial(_scored, text, function, needs_labels=flags["needs_labels"])
    return Metric(text, score, **flags, finish=partial(_finished, text, finish))


def _scored(
    name: str, function: Score, outputs: Arrays, labels: Array | None, inputs: Arrays, *, needs_labels: bool
) -> Array:
    """What the function gives, as numerators and denominators."""
    if needs_labels and labels is None:
        raise UsageError(f"metric {name} needs labels, and the data have none; give them as 'labels' beside the inputs")
    given = _called(name, function, outputs, labels, inputs)
    rows = len(next(iter(inputs.values())))
    try:
        scores: Array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"metric {name} gave a {type(given).__name__}, expected an array of numbers") from None
    if scores.shape not in ((rows,), (rows, 2)):
        raise UsageError(
            f"metric {name} gave shape {scores.shape} for {rows} rows: expected {(rows,)}, a score for each row, or "
            f"{(rows, 2)}, a numerator and a denominator for each"
        )
    if not np.isfinite(scores).all():
        raise UsageError(f"metric {name} gave {scores[~np.isfinite(scores)][0]}: expected finite numbers")
    if scores.ndim == 1:
        return np.stack([scores, np.ones_like(scores)], axis=1)
    if (scores[:, 1] < 0).any():
        raise UsageError(f"metric {name} gave the denominator {scores[:, 1].min():g}: expected none below 0")
    return scores


def _finished(name: str, finish: Callable[..., Any], number: float) -> float:
    try:
        with np.errstate(over="ignore"):
            finished = float(_called(name, finish, number))
    except TargetError as error:
        if isinstance(error.__cause__, OverflowError):
            return np.inf
        raise
    if np.isnan(finished):
        raise UsageError(f"finish of metric {name} gave no number for {number:g}")
    return finished


def _called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the user's code gives; what lies beside it can be imported while it runs, and only then."""
    beside = nullcontext() if name in BUILT_IN else target.importable(target.split(name)[0])
    try:
        with beside:
            return function(*arguments)
    except GeluDeployError:
        raise
    except Exception as error:
        raise TargetError(f"metric {name} failed: {type(error).__name__}: {error}") from error

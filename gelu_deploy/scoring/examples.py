"""Perplexity and character errors, written as a user writes a metric: ``--metric FILE.py:NAME``.

A metric is a function of a batch's outputs, labels and inputs that gives a number for each row, or a numerator and a
denominator. What else there is to say about it are attributes of the function.
"""

from __future__ import annotations

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.scoring.metrics import are_probabilities, predictions

SMALLEST = float(np.finfo(np.float32).tiny)
"""What a probability counts as that is smaller, or no number."""
BLANK = 0
"""Class that says no character (CTC)."""


def perplexity(outputs: Arrays, labels: Array, inputs: Arrays) -> Array:  # noqa: ARG001  # what every metric is given
    """Of a language model: nats and tokens of each row, float64 ``[rows, 2]``.

    Args:
        outputs: The first is ``[rows, length, tokens]``: logits, or probabilities.
        labels: Next tokens ``[rows, length]``, already shifted; below 0 is padding.
        inputs: Not looked at.
    """
    first = next(iter(outputs.values()))
    if first.ndim != 3 or labels.shape != first.shape[:2]:
        raise ValueError(f"labels came as {labels.shape}, the first output as {first.shape}: (rows, length, tokens)")
    if labels.max(initial=0) >= first.shape[2]:
        raise ValueError(f"token {labels.max()} came, but the first output has the tokens 0 to {first.shape[2] - 1}")
    given = are_probabilities(first)
    nats = np.stack([_nats(row, np.maximum(wanted, 0), given) for row, wanted in zip(first, labels, strict=True)])
    asked = labels >= 0
    return np.stack([np.sum(nats * asked, axis=1), np.sum(asked, axis=1)], axis=1)


perplexity.higher_is_better = False  # type: ignore[attr-defined]  # any function may carry attributes
perplexity.needs_labels = True  # type: ignore[attr-defined]  # the same
perplexity.finish = np.exp  # type: ignore[attr-defined]  # the same


def cer(outputs: Arrays, labels: Array, inputs: Arrays) -> Array:  # noqa: ARG001  # what every metric is given
    """Of a text reader (CTC): wrong characters and characters of each row, float64 ``[rows, 2]``.

    The best class of each step is taken, repeats are one, blanks are none; wrong are the fewest insertions, deletions
    and replacements that make the label of it.

    Args:
        outputs: The first is ``[rows, time, classes]``; class 0 is the blank.
        labels: Classes of the characters ``[rows, length]``; below 0 is padding.
        inputs: Not looked at.
    """
    first = next(iter(outputs.values()))
    if first.ndim != 3 or labels.ndim != 2 or len(labels) != len(first):
        raise ValueError(f"labels came as {labels.shape}, the first output as {first.shape}: (rows, time, classes)")
    if (labels == BLANK).any():
        raise ValueError(f"labels hold class {BLANK}, which is the blank: give padding as -1")
    texts = [row[row >= 0] for row in labels]
    wrong = [_edits(_read(steps), text) for steps, text in zip(predictions(first), texts, strict=True)]
    return np.array([wrong, [len(text) for text in texts]], np.float64).T


cer.higher_is_better = False  # type: ignore[attr-defined]  # any function may carry attributes
cer.percent = True  # type: ignore[attr-defined]  # the same
cer.needs_labels = True  # type: ignore[attr-defined]  # the same


def _nats(row: Array, tokens: Array, given: bool) -> Array:
    """Minus the logarithm of each token's probability ``[length]``; ``row`` is ``[length, tokens]``."""
    row = row.astype(np.float64)
    with np.errstate(invalid="ignore"):
        probabilities = row if given else np.exp(row - row.max(axis=-1, keepdims=True))
        share = np.take_along_axis(probabilities, tokens[:, None], axis=-1)[:, 0] / probabilities.sum(axis=-1)
    nats: Array = -np.log(np.fmax(share, SMALLEST))
    return nats


def _read(steps: Array) -> Array:
    """Characters of the best classes ``[time]``; a step that is no number is a character that no label has."""
    new = np.concatenate([[True], steps[1:] != steps[:-1]])
    read: Array = steps[new & (steps != BLANK)]
    return read


def _edits(read: Array, text: Array) -> int:
    """Levenshtein's distance, row by row of its table."""
    places = np.arange(len(text) + 1)
    row = places
    for number, character in enumerate(read, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (text != character))
        row = np.minimum.accumulate(np.concatenate([[number], best]) - places) + places
    return int(row[-1])

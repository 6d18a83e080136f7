"""How far two sets of answers are apart: signal over noise, divergence, agreement, answers lost and gained.

NumPy only; whatever is not a number counts as the worst there is. It knows nothing of graphs, runtimes or data files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gelu_deploy.arrays import Array

PROBABILITIES = 1e-3
"""Rows of numbers >= 0 whose sums are this near to 1 are probabilities, not logits."""


@dataclass
class Energy:
    """Energy of a signal and of the noise on it, summed over any number of batches, in float64."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, reference: Array, got: Array) -> None:
        """One batch: two arrays of one shape, of any numeric type. Raises ValueError where the shapes differ."""
        if reference.shape != got.shape:
            raise ValueError(f"shapes differ: {reference.shape} and {got.shape}")
        a, b = reference.astype(np.float64), got.astype(np.float64)
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            gap = np.where(equal, 0.0, b - a)
        self.noise += float(np.vdot(gap, gap)) if np.isfinite(gap).all() else np.inf
        finite = np.where(np.isfinite(a), a, 0.0)
        self.signal += float(np.vdot(finite, finite))

    @property
    def db(self) -> float:
        """Signal over noise in dB: inf without noise, -inf where what came is not finite or nothing was expected."""
        if self.noise == 0:
            return np.inf
        if self.signal == 0 or not np.isfinite(self.noise):
            return -np.inf
        return float(10 * np.log10(self.signal / self.noise))


@dataclass(frozen=True)
class McNemar:
    """McNemar's test of two classifiers on the same rows.

    Attributes:
        lost: Rows that only the first answers correctly.
        gained: Rows that only the second answers correctly.
    """

    lost: int
    gained: int

    @classmethod
    def of(cls, reference: Array, got: Array, labels: Array) -> McNemar:
        """From two outputs ``[..., classes]`` and the true classes ``[...]``."""
        before, after = predictions(reference) == labels, predictions(got) == labels
        return cls(int(np.sum(before & ~after)), int(np.sum(after & ~before)))

    @property
    def p(self) -> float:
        """Exact two-sided binomial probability of a split as uneven as this, were both equally good."""
        rows, fewer = self.lost + self.gained, min(self.lost, self.gained)
        tail, ways = 0, 1
        for count in range(fewer + 1):
            tail += ways
            ways = ways * (rows - count) // (count + 1)
        return min(1.0, 2 * tail / (1 << rows))


def sqnr(reference: Array, got: Array) -> float:
    """Signal over quantization noise in dB of one pair of arrays, as :attr:`Energy.db`."""
    energy = Energy()
    energy.add(reference, got)
    return energy.db


def kl(reference: Array, got: Array) -> float:
    """Mean over rows of KL(reference || got) in nats, >= 0; inf where a row is not a distribution.

    Args:
        reference: Logits ``[..., classes]``, or probabilities (then ``got`` holds probabilities too).
        got: The same shape.
    """
    given = are_probabilities(reference)
    p, q = (_log_distribution(array, given) for array in (reference, got))
    with np.errstate(invalid="ignore"):
        terms = np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q))
    mean = float(np.mean(np.sum(terms, axis=-1)))
    return np.inf if np.isnan(mean) else max(0.0, mean)


def are_probabilities(array: Array) -> bool:
    """Whether every row ``[..., classes]`` is a distribution already."""
    return bool(np.all(array >= 0) and np.all(np.abs(array.sum(axis=-1, dtype=np.float64) - 1) <= PROBABILITIES))


def predictions(output: Array) -> Array:
    """Class of every row of ``[..., classes]``: int64 ``[...]``, -1 where the row holds a NaN."""
    broken = np.isnan(output).any(axis=-1)
    return np.where(broken, -1, output.argmax(axis=-1))


def agreement(reference: Array, got: Array) -> float:
    """Share of rows ``[..., classes]`` to which both give the same class; a row with a NaN agrees with none."""
    a, b = predictions(reference), predictions(got)
    return float(np.mean((a == b) & (a >= 0)))


def accuracy(output: Array, labels: Array) -> float:
    """Share of rows ``[..., classes]`` that get their true class ``[...]``."""
    return float(np.mean(predictions(output) == labels))


def _log_distribution(array: Array, given: bool) -> Array:
    """Logarithms of the rows' probabilities in float64; those that underflowed count as the smallest there is."""
    rows: Array = array.astype(np.float64)
    with np.errstate(invalid="ignore"):
        if given:
            tiny = float(np.finfo(array.dtype).tiny)
            logarithms: Array = np.log(np.where(np.isfinite(rows), np.maximum(rows, tiny), np.nan))
        else:
            shifted = rows - rows.max(axis=-1, keepdims=True)
            logarithms = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logarithms

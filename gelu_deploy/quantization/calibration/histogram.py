"""How often each value occurred, in bins that widen as the range grows: at most 4096 of them, 0 included.

Widths are powers of two and edges whole multiples of them, so that widening joins whole bins and nothing is estimated:
batches give the same histogram in any order and in any pieces. It knows only NumPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gelu_deploy.arrays import Array

BINS = 4096
NARROWEST = -1100
"""Exponent of the only bin where all values are 0, less than that of any other."""

CHUNK = 1 << 20
"""Elements that are counted at a time, so that the work needs little memory beyond the batch."""


@dataclass(frozen=True)
class Histogram:
    """Counts of values, int64, by bin.

    Attributes:
        exponent: A bin is 2**exponent wide.
        first: The first bin begins at first · 2**exponent.
        counts: How many values lie in each bin, of any sum.
    """

    exponent: int
    first: int
    counts: Array

    @classmethod
    def of(cls, values: Array) -> Histogram:
        """The histogram of finite floating-point numbers, of any shape, at least one."""
        flat = values.reshape(-1)
        exponent = _exponent(float(flat.min()), float(flat.max()))
        parts = [_counted(flat[start : start + CHUNK], exponent) for start in range(0, flat.size, CHUNK)]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.merged(part)
        return whole

    def merged(self, other: Histogram) -> Histogram:
        """Both together."""
        exponent = max(self.exponent, other.exponent)
        while True:
            one, two = self._widened(exponent), other._widened(exponent)
            first, end = min(one.first, two.first), max(one.end, two.end)
            if max(end, 0) - min(first, 0) <= BINS:
                break
            exponent += 1
        counts = np.zeros(end - first, np.int64)
        for part in (one, two):
            counts[part.first - first : part.first - first + part.counts.size] += part.counts
        return Histogram(exponent, first, counts)

    @property
    def end(self) -> int:
        """The last bin ends at end · 2**exponent."""
        return self.first + self.counts.size

    @property
    def centres(self) -> Array:
        """The middle of each bin, float64."""
        middles: Array = np.ldexp(np.arange(self.first, self.end) + 0.5, self.exponent)
        return middles

    def magnitudes(self) -> Histogram:
        """The histogram of absolute values; it begins at 0."""
        bins = np.arange(self.first, self.end)
        bins = np.where(bins < 0, -1 - bins, bins)
        counts = np.zeros(int(bins.max()) + 1, np.int64)
        np.add.at(counts, bins, self.counts)
        return Histogram(self.exponent, 0, counts)

    def above(self, floor: float) -> Histogram:
        """The same with what lies in lower bins counted into the one that holds ``floor``."""
        kept = math.floor(math.ldexp(floor, -self.exponent)) - self.first
        if kept <= 0:
            return self
        kept = min(kept, self.counts.size - 1)
        counts = self.counts[kept:].copy()
        counts[0] += self.counts[:kept].sum()
        return Histogram(self.exponent, self.first + kept, counts)

    def quantile(self, share: float) -> float:
        """The value below which this share lies, values taken as spread evenly inside their bin."""
        below = np.concatenate([[0], np.cumsum(self.counts)])
        wanted = share * below[-1]
        place = int(np.searchsorted(below, wanted, side="left"))
        bin_ = max(0, place - 1)
        inside = (wanted - below[bin_]) / max(1, self.counts[bin_])
        return math.ldexp(self.first + bin_ + inside, self.exponent)

    def _widened(self, exponent: int) -> Histogram:
        steps = exponent - self.exponent
        if not steps:
            return self
        indices = np.arange(self.first, self.end) >> min(steps, 63)
        first = int(indices[0])
        counts = np.zeros(int(indices[-1]) - first + 1, np.int64)
        np.add.at(counts, indices - first, self.counts)
        return Histogram(exponent, first, counts)


def _counted(values: Array, exponent: int) -> Histogram:
    """The histogram at a width that is wide enough."""
    indices = np.floor(np.ldexp(values.astype(np.float64), -exponent)).astype(np.int64)
    first = int(indices.min())
    return Histogram(exponent, first, np.bincount(indices - first).astype(np.int64))


def _exponent(lowest: float, highest: float) -> int:
    """Of the narrowest bins that are few enough from the lowest to the highest value, 0 included."""
    low, high = min(lowest, 0.0), max(highest, 0.0)
    if low == high:
        return NARROWEST
    exponent = math.frexp(max(-low, high))[1] - int(math.log2(BINS))
    while math.floor(math.ldexp(high, -exponent)) - math.floor(math.ldexp(low, -exponent)) >= BINS:
        exponent += 1
    return exponent

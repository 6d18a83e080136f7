"""From what was seen of a value to the range that 8 bits are to cover: one function for each method.

Every range includes 0. Where nothing lies below -0.2, as after a GELU, whose floor is -0.17, the lower end is never
clipped: only the upper end is searched. It knows neither networks nor data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import numpy as np

from gelu_deploy.arrays import Array
from gelu_deploy.quantization.calibration.observing import Observation
from gelu_deploy.quantization.network import Range

Method = Literal["minmax", "percentile", "mse", "entropy"]
METHODS: tuple[Method, ...] = get_args(Method)

FLOOR = -0.2
SHARE = 0.9999
CODES = 255
"""Steps between the smallest and the largest code."""

COARSE, FINE = 2.0 ** -np.arange(0, 8.5, 0.5), 2.0 ** np.arange(-0.5, 0.5625, 0.0625)
"""Parts of the observed range that the mse method tries, and what the best of them is then multiplied by."""

LEVELS = 128
"""Codes that magnitudes are spread over in the entropy method: half of them where both signs occur."""


def ranges(observations: Mapping[str, Observation], method: Method) -> dict[str, Range]:
    """The range of every value by one method, 0 included."""
    return {name: _range(seen, method) for name, seen in observations.items()}


def minmax(seen: Observation) -> Range:
    """From the smallest to the largest element."""
    return seen.minimum, seen.maximum


def percentile(seen: Observation) -> Range:
    """What 99.99 % of the magnitudes lie below, on either side."""
    return _clipped(seen, seen.quantile(SHARE))


def mse(seen: Observation) -> Range:
    """The range with the least mean square error of quantizing and clipping the histogram to asymmetric 8 bits.

    Either end moves in alone; a coarse search of both comes before a fine one around its best.
    """
    low, high = min(0.0, seen.minimum), max(0.0, seen.maximum)
    best = _least(seen, low, high, COARSE)
    return _least(seen, *best, FINE)


def entropy(seen: Observation) -> Range:
    """The range whose quantized magnitudes tell least apart from the real ones, by the Kullback-Leibler divergence.

    The method of Migacz, "8-bit Inference with TensorRT" (2017): magnitudes above a threshold are counted into the last
    bin, the rest is merged into as many levels as there are codes, and the threshold with the least divergence wins.
    The histogram has many times more bins than codes; with as few, only one threshold would be left to try.
    """
    folded = seen.histogram.magnitudes()
    counts = folded.counts.astype(np.float64)
    levels = LEVELS if seen.minimum < FLOOR else 2 * LEVELS
    if counts.size <= levels:
        return minmax(seen)
    ends = np.unique(np.linspace(levels, counts.size, 200).astype(int))
    losses = [_divergence(counts, int(end), levels) for end in ends]
    return _clipped(seen, float(np.ldexp(float(ends[int(np.argmin(losses))]), folded.exponent)))


_BY_METHOD: Mapping[Method, Callable[[Observation], Range]] = {
    "minmax": minmax,
    "percentile": percentile,
    "mse": mse,
    "entropy": entropy,
}


def _range(seen: Observation, method: Method) -> Range:
    low, high = _BY_METHOD[method](seen)
    return float(min(0.0, low)), float(max(0.0, high))


def _clipped(seen: Observation, threshold: float) -> Range:
    low = seen.minimum if seen.minimum >= FLOOR else max(seen.minimum, -threshold)
    return low, min(seen.maximum, threshold)


def _least(seen: Observation, low: float, high: float, parts: Array) -> Range:
    """Of all ranges that are these parts of one, none beyond what was seen, the one with the least error."""
    lows = np.maximum(low * parts, seen.minimum) if low < 0 and seen.minimum < FLOOR else [low]
    highs = np.minimum(high * parts, seen.maximum) if high > 0 else [high]
    centres, counts = seen.histogram.centres, seen.histogram.counts
    candidates = [(float(one), float(other)) for one in np.unique(lows) for other in np.unique(highs)]
    errors = [_error(centres, counts, *candidate) for candidate in candidates]
    return candidates[int(np.argmin(errors))]


def _error(centres: Array, counts: Array, low: float, high: float) -> float:
    """Sum of squared differences between values and their codes; the zero point is a whole code, as in a model."""
    step = (high - low) / CODES or 1.0
    zero = np.round(-low / step)
    codes = np.clip(np.round(centres / step) + zero, 0, CODES)
    return float(counts @ (centres - (codes - zero) * step) ** 2)


def _divergence(counts: Array, end: int, levels: int) -> float:
    """Of the first ``end`` bins, all beyond counted into the last, from the same spread over ``levels``."""
    real = counts[:end].copy()
    filled = real > 0
    starts = np.arange(levels) * end // levels
    sums, sizes = np.add.reduceat(real, starts), np.add.reduceat(filled.astype(np.float64), starts)
    spread = np.repeat(sums / np.maximum(sizes, 1), np.diff(np.append(starts, end))) * filled
    real[-1] += counts[end:].sum()
    real, spread = real / real.sum(), spread / max(spread.sum(), 1.0)
    some = real > 0
    if np.any(spread[some] == 0):  # what is clipped falls on a bin that was empty
        spread = (spread + 1e-12 * some) / (1 + 1e-12 * some.sum())
    return float(np.sum(real[some] * np.log(real[some] / spread[some])))

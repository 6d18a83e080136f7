"""Where a number stands on an axis, as a share of its length, and where the axis is marked.

It knows nothing of what the numbers are or how they are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Scale:
    """An axis from ``low`` to ``high``, ``low < high``; a logarithmic one has both above zero."""

    low: float
    high: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Where the value stands: 0 at ``low``, 1 at ``high``, those at most."""
        low, high, place = (self._warped(one) for one in (self.low, self.high, max(value, self.low)))
        return min(1.0, (place - low) / (high - low))

    def _warped(self, value: float) -> float:
        return math.log(value) if self.logarithmic else value

    def ticks(self, most: int = 6) -> list[float]:
        """At most that many round numbers inside, rising."""
        return log_ticks(self.low, self.high, most) if self.logarithmic else linear_ticks(self.low, self.high, most)


def around(values: list[float], *, margin: float = 0.08, spread: float = math.inf) -> Scale:
    """The scale that holds all values, with a margin on both sides.

    Args:
        values: At least one number.
        margin: As a share of what lies between the ends.
        spread: Largest ratio of the ends, all values above zero, up to which the scale is linear.
    """
    low, high = min(values), max(values)
    if low > 0 and high / low > spread:
        factor = (high / low) ** margin
        return Scale(low / factor, high * factor, logarithmic=True)
    pad = (high - low) * margin or abs(high) * margin or 1.0
    return Scale(low - pad, high + pad)


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most that many multiples of 1, 2 or 5 times a power of ten from ``low`` to ``high``."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    fitting = (step * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (step * factor) < most)
    step = next(fitting)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) + 0.0 for place in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most that many of 1, 2 and 5 times the powers of ten from ``low`` to ``high``, both above zero.

    Fewer in each decade where there would be too many; as on a linear axis where there is hardly one.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        inside = [tick for decade in decades for step in steps if low <= (tick := step * 10.0**decade) <= high]
        if len(inside) <= most:
            break
    return inside[:: -(-len(inside) // most)] if len(inside) > 1 else linear_ticks(low, high, most)


def decimals(ticks: list[float]) -> int:
    """Digits behind the point that tell the ticks apart."""
    gap = min((after - before for before, after in pairwise(ticks)), default=1.0)
    return max(0, -math.floor(math.log10(gap) + 1e-9))

"""Paired differences over seeds: how large, how sure, what could have been seen, and what that says of a claim.

It knows nothing of networks or of what the numbers are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
POWER = 0.8
"""Probability with which the smallest difference that could have been seen would be seen."""

Verdict = Literal["confirmed", "refuted", "cannot be told"]


@dataclass(frozen=True)
class Paired:
    """The mean of paired differences, one of each seed.

    Attributes:
        mean: Of the differences.
        error: Its standard error.
        low: Lower end of the t-interval of the mean, at CONFIDENCE.
        high: Its upper end.
        p: Probability of a mean this far from 0, two-sided, were there no difference; 1 where all are 0.
        detectable: Mean that would be told from 0 with POWER: (t of the interval + t of POWER) · error.
    """

    mean: float
    error: float
    low: float
    high: float
    p: float
    detectable: float

    @classmethod
    def of(cls, differences: Sequence[float]) -> Paired:
        """Of two differences or more; not finite where one of them is not. Raises ValueError for fewer."""
        count = len(differences)
        if count < 2:
            raise ValueError(f"{count} differences: expected two or more, there is no error of fewer")
        mean, error = float(np.mean(differences)), float(np.std(differences, ddof=1) / np.sqrt(count))
        reach, seen = (float(stats.t.ppf(q, count - 1)) for q in ((1 + CONFIDENCE) / 2, POWER))
        p = 2 * float(stats.t.sf(abs(mean) / error, count - 1)) if error > 0 else float(mean == 0)
        return cls(mean, error, mean - reach * error, mean + reach * error, p, (reach + seen) * error)


def verdict(low: float, high: float, claimed: tuple[float, float]) -> Verdict:
    """Of a claim that a number lies in an open range, when it is known to lie from low to high."""
    least, most = claimed
    if least < low and high < most:
        return "confirmed"
    if high <= least or most <= low:
        return "refuted"
    return "cannot be told"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Of a claim that says the same of several cases: one case refutes it, all must confirm it."""
    found = set(verdicts)
    if "refuted" in found:
        return "refuted"
    return "confirmed" if found == {"confirmed"} else "cannot be told"

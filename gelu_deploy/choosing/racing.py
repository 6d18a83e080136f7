"""Candidates timed in turns, and which of them is faster beyond the noise of this machine.

It knows times, and neither graphs nor what is told of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gelu_deploy.arrays import Array
from gelu_deploy.choosing.candidates import Candidate
from gelu_deploy.results import Spread
from gelu_deploy.timing.interleaved import MOST_SECONDS, Timing, Variant, timed
from gelu_deploy.tuning import GAIN, gains

ROUNDS = 9
SECONDS = 60.0
"""For all turns of a race at most, unless single runs are so slow that it takes longer."""
SAME = Spread(median=1.0, low=1.0, high=1.0)


@dataclass(frozen=True)
class Entry:
    """A candidate and what it took."""

    candidate: Candidate
    timing: Timing


@dataclass(frozen=True)
class Race:
    """What one measurement says.

    Attributes:
        entries: The one that the others are held against comes first.
        noise: The time of that one over its own, when it takes part twice.
    """

    entries: Sequence[Entry]
    noise: Spread

    def ratio(self, one: Entry) -> Spread:
        """Its time over the first one's."""
        return spread(one.timing, self.entries[0].timing)

    def beats(self, one: Entry, other: Entry) -> bool:
        """Whether it is faster beyond noise: as :func:`tuning.gains` has it, and by more than equals differ here."""
        ratio = spread(one.timing, other.timing)["median"]
        return gains(one.timing, other.timing) and ratio < visible(self.noise)

    def cheapest(self, entries: Iterable[Entry], best: Entry | None = None) -> Entry:
        """``best``, or which of these beats it; a larger change of the outputs must beat the smaller ones too.

        Args:
            entries: What may be taken besides.
            best: Default: the first of the race.
        """
        best = self.entries[0] if best is None else best
        for one in sorted(entries, key=lambda one: one.candidate.error):
            if self.beats(one, best):
                best = one
        return best


def race(candidates: Sequence[Candidate], feeds: Mapping[str, Array], provider: str) -> Race:
    """Time all in turns, the first one twice, each in a process of its own.

    Of each turn the fastest run counts: whatever else goes on here can only make one slower. All are open at the same
    time, so that the memory must hold as many models.

    Raises:
        NativeCrash: One of them cannot be run in a process of its own.
    """
    drivers = [candidates[0], *candidates]
    seconds = min(MOST_SECONDS, SECONDS / (ROUNDS * len(drivers)))
    variants = [Variant.session(one.name, one.file, provider=provider) for one in drivers]
    again, *timings = map(_fastest, timed(variants, feeds, rounds=ROUNDS, seconds=seconds))
    entries = [Entry(one, timing) for one, timing in zip(candidates, timings, strict=True)]
    return Race(entries, spread(again, timings[0]))


def visible(noise: Spread) -> float:
    """The ratio of times from which on downwards a gain is more than what equals differ by."""
    return min(noise["low"], 1 / noise["high"], GAIN)


def _fastest(timing: Timing) -> Timing:
    return replace(timing, rounds=tuple((min(runs),) for runs in timing.rounds))


def spread(one: Timing, base: Timing) -> Spread:
    """The time of one over that of the other, round by round."""
    middle, low, high = np.quantile(one.ratios(base), (0.5, 0.1, 0.9))
    return Spread(median=float(middle), low=float(low), high=float(high))

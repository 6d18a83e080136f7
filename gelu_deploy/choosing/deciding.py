"""Which candidate is taken: the cheapest that may be, kind by kind of GELU where that pays.

A gain is believed only if it is beyond noise twice: when all are timed, and when what was found is timed once more
against what ``keep`` writes, in new processes. It knows candidates and times, and no files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gelu_deploy.choosing.candidates import Candidate, Choices, Maker
from gelu_deploy.choosing.racing import SAME, Entry, Race, race
from gelu_deploy.progress import step
from gelu_deploy.results import Spread

VARIATIONS = 8
"""At most so many candidates differ from the best one in one kind of GELU."""

Group = tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    """What was decided.

    Attributes:
        chosen: What is written.
        tried: The best one, if it is not what ``keep`` writes; it is not chosen if the last race did not bear it out.
        ratio: Its time over that of what ``keep`` writes, in that race.
        offer: What would be taken of what may not be; None if nothing.
        races: In each, what ``keep`` writes comes first: one of all candidates, one of the best; none if there was
            nothing to compare.
    """

    chosen: Candidate
    tried: Candidate | None = None
    ratio: Spread = field(default_factory=lambda: SAME)
    offer: Candidate | None = None
    races: tuple[Race, ...] = ()

    def timings(self) -> dict[Candidate, tuple[Race, Entry]]:
        """Every candidate, what ``keep`` writes first, with the first race that it was in."""
        found = dict[Candidate, tuple[Race, Entry]]()
        for one in self.races:
            for entry in one.entries:
                found.setdefault(entry.candidate, (one, entry))
        return found


@dataclass(frozen=True)
class Variation:
    """The best candidate with the GELUs of one kind as another one has them."""

    group: Group
    other: Candidate
    made: Candidate


def decide(maker: Maker, candidates: Sequence[Candidate]) -> Decision:
    """Time all, vary the best, time the result once more.

    Args:
        maker: Makes more of them.
        candidates: What ``keep`` writes, and others.

    Raises:
        NativeCrash: One of them cannot be run in a process of its own.
    """
    base = candidates[0]
    if len(candidates) == 1:
        return Decision(base)
    first = timed(maker, candidates)
    allowed = [one for one in first.entries if not one.candidate.needs]
    best = first.cheapest(allowed)
    offer = first.cheapest((one for one in first.entries if one.candidate.needs), best)
    offered = None if offer is best else offer.candidate
    ranked = sorted(allowed, key=lambda one: (one.candidate is not base, first.ratio(one)["median"]))
    mixed = _mixed(maker, best.candidate, [one.candidate for one in ranked])
    finalists = [one for one in dict.fromkeys((mixed, best.candidate)) if one is not None and one is not base]
    if not finalists:
        return Decision(base, offer=offered, races=(first,))
    last = timed(maker, [base, *finalists])
    taken = last.cheapest(last.entries)
    tried = last.entries[1] if taken.candidate is base else taken
    return Decision(taken.candidate, tried.candidate, last.ratio(tried), offered, (first, last))


def timed(maker: Maker, candidates: Sequence[Candidate]) -> Race:
    """A race on the first case, where the options say."""
    with step("time"):
        return race(candidates, maker.start.cases[0].inputs, maker.options.provider)


def _mixed(maker: Maker, best: Candidate, allowed: Sequence[Candidate]) -> Candidate | None:
    """The best with the GELUs of some kinds as others have them; None where that does not pay or may not be."""
    variations = list(islice(_variations(maker, best, allowed), VARIATIONS))
    if not variations:
        return None
    heat = timed(maker, [best, *(one.made for one in variations)])
    choices = best.choices
    for group in maker.groups():
        pairs = zip(variations, heat.entries[1:], strict=True)
        picked = _picked(heat, [(one, entry) for one, entry in pairs if one.group == group], maker.base)
        choices = choices if picked is None else _with(choices, group, picked)
    made = maker.make(choices) if choices != best.choices else None
    return None if made is None or made.needs else made


def _variations(maker: Maker, best: Candidate, allowed: Sequence[Candidate]) -> Iterator[Variation]:
    """What is likeliest to pay comes first: in the order in which they are allowed, for every kind."""
    groups = maker.groups()
    for other in allowed if len(groups) > 1 else ():
        for group in groups:
            if all(other.runs(name) == best.runs(name) for name in group):
                continue
            made = maker.make(_with(best.choices, group, other))
            if made is not None and not made.needs:
                yield Variation(group, other, made)


def _picked(heat: Race, pairs: Sequence[tuple[Variation, Entry]], base: Candidate) -> Candidate | None:
    """Whose GELUs of one kind are taken; None for those of the best. The change of a form must pay in the median."""
    winner = heat.cheapest(entry for _, entry in pairs)
    for one, entry in pairs:
        if entry is winner or (winner is heat.entries[0] and one.other is base and heat.ratio(entry)["median"] <= 1):
            return one.other
    return None


def _with(choices: Choices, group: Group, other: Candidate) -> Choices:
    rest = {name: written for name, written in choices.items() if name not in group}
    return rest | {name: other.choices[name] for name in group if name in other.choices}

"""Each claim with its verdict and its number. Every claim is a range that a number lies in, over one case or several.

The words of a claim stand here; what is said of it follows from the numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from studying.results import UNITS, Results
from studying.statistics import Paired, Verdict, together, verdict
from studying.tables import ACTIVATIONS, INT8, OTHERS, TITLES, case, interval, mean

CLEAR = {"digits": 0.5, "text": 1.0}
"""What "clearly" is taken for: half a point of accuracy, one percent of perplexity."""
MORE = (0.0, math.inf)
FIFTEEN = (10, 20)
"""What "15 %" is taken for."""
UNCHANGED = (-0.1, 0.1)
HEALTHY = (60.0, 80.0)


@dataclass(frozen=True)
class Claim:
    """What is claimed, and what was found.

    Attributes:
        words: The claim.
        verdict: What the numbers make of it.
        found: The numbers, in sentences.
    """

    words: str
    verdict: Verdict
    found: str

    def __str__(self) -> str:
        return f"- **{self.words}** {self.verdict.capitalize()}. {self.found}"


def claims(results: Results) -> Iterator[Claim]:
    """All of them."""
    yield from (best(results, other) for other in OTHERS)
    yield twin(results)
    yield swapped(results)
    yield from clearly(results)
    yield smooth(results)
    yield tanh(results, ("float",), "in float")
    yield tanh(results, INT8, "in INT8, written out as operators")
    yield healthy(results)


def best(results: Results, other: str) -> Claim:
    """The activations side by side, in float."""
    found = {task.name: results.other(task, other) for task in results.tasks}
    told = (f"{mean(one)} {UNITS[task]} worse on {task} ({interval(one)})" for task, one in found.items())
    return Claim(
        f"GELU makes a better network than {TITLES[other]}.",
        together(verdict(one.low, one.high, MORE) for one in found.values()),
        f"{TITLES[other]} is {' and '.join(told)}.",
    )


def sides(found: Collection[Paired], above: str, below: str) -> str:
    """In how many cases a difference lies on which side of 0."""
    count = Counter("above" if one.low > 0 else "below" if one.high < 0 else "open" for one in found)
    texts = [
        f"{above} in {count['above']}",
        f"{below} in {count['below']}",
        f"no difference is seen in {count['open']}",
    ]
    return f"Of {len(found)} cases, {', '.join(texts)}."


def twin(results: Results) -> Claim:
    """The perplexity claim, as two trainings."""
    task = results.tasks[-1]
    found = results.other(task, "relu")
    return Claim(
        "GELU → ReLU costs 15 % perplexity, when the ReLU network is trained from scratch.",
        verdict(found.low, found.high, FIFTEEN),
        f"It costs {mean(found)} % of perplexity ({interval(found)}); {found.detectable:.2f} % would have been seen.",
    )


def swapped(results: Results) -> Claim:
    """The perplexity claim, without a second training."""
    digits, text = (results.swapped(task) for task in results.tasks)
    return Claim(
        "GELU → ReLU costs 15 % perplexity, when ReLU is put into the trained GELU network.",
        verdict(text.low, text.high, FIFTEEN),
        f"It costs {mean(text)} % of perplexity ({interval(text)}), and on digits {mean(digits)} points of accuracy "
        f"({interval(digits)}).",
    )


def clearly(results: Results) -> Iterator[Claim]:
    """Whether INT8 favours GELU, in what counts, read in two ways."""
    sound = results.sound(INT8)
    better = {(task.name, scheme): results.other(task, "relu", scheme) for task, scheme in sound}
    gains = {(task.name, scheme): results.gain(task, "relu", scheme) for task, scheme in sound}
    yield _clearly("the INT8 networks compared", better, "GELU is better", "ReLU is better")
    yield _clearly("what INT8 costs compared", gains, "GELU loses less", "ReLU loses less")


def _clearly(reading: str, found: Mapping[tuple[str, str], Paired], above: str, below: str) -> Claim:
    cases = {key: verdict(one.low, one.high, (CLEAR[key[0]], math.inf)) for key, one in found.items()}
    ruled_out = sum(one == "refuted" for one in cases.values())
    largest = {task: max((one for key, one in found.items() if key[0] == task), key=_mean) for task, _ in found}
    most = " and ".join(f"{mean(one)} {UNITS[task]} on {task} ({interval(one)})" for task, one in largest.items())
    margin = " or ".join(f"{size:g} {UNITS[task]}" for task, size in CLEAR.items())
    return Claim(
        f"INT8: GELU is clearly better than ReLU, {reading}.",
        together(cases.values()),
        f"{sides(found.values(), above, below)} An advantage of more than {margin} is "
        f"ruled out in {ruled_out}. GELU's largest, as measured, is {most}.",
    )


def _mean(found: Paired) -> float:
    return found.mean


def smooth(results: Results) -> Claim:
    """Whether INT8 favours GELU for the reason that is given."""
    found = {case(task, scheme): results.louder(task, "relu", scheme) for task, scheme in results.sound(INT8)}
    low, high = (pick(found, key=lambda name: found[name].mean) for pick in (min, max))
    seen = [one.detectable for one in found.values()]
    told = sides(found.values(), "GELU has less noise", "ReLU has less noise")
    return Claim(
        "INT8: being smooth, GELU suppresses quantization noise.",
        together(verdict(one.low, one.high, MORE) for one in found.values()),
        f"SQNR of the logits, GELU's less ReLU's: {told} From {mean(found[low])} dB ({low}) to {mean(found[high])} dB "
        f"({high}); from {min(seen):.1f} dB in one case to {max(seen):.1f} dB in another would have been seen.",
    )


def tanh(results: Results, schemes: tuple[str, ...], where: str) -> Claim:
    """The form swapped in trained networks."""
    found = {(task.name, scheme): results.tanh(task, scheme) for task, scheme in results.sound(schemes)}
    verdicts = Counter(verdict(one.low, one.high, UNCHANGED) for one in found.values())
    worst = {
        task: max((one for key, one in found.items() if key[0] == task), key=lambda one: abs(one.mean))
        for task, _ in found
    }
    most = " and ".join(
        f"{one.mean:+.3f} ± {one.error:.3f} {UNITS[task]} on {task} ({one.low:+.3f} to {one.high:+.3f})"
        for task, one in worst.items()
    )
    told = ", ".join(f"{text} in {count}" for text, count in verdicts.items())
    return Claim(
        f"The tanh form changes accuracy by less than 0.1 %, {where}.",
        together(verdicts),
        f"Of {len(found)} cases: {told}. The largest change, as what it is worse by, is {most}.",
    )


def healthy(results: Results) -> Claim:
    """The band of effective activation rates."""
    found = {
        (task.name, activation): [rate for site in results.rates(task, activation) for rate in site]
        for task in results.tasks
        for activation in ACTIVATIONS[:2]
    }
    told = "; ".join(
        f"{TITLES[activation]} on {task} {min(rates):.0f} to {max(rates):.0f} %"
        for (task, activation), rates in found.items()
    )
    accuracy = min(score for one in ACTIVATIONS[:2] for score in results.scores(results.tasks[0], one))
    nats = max(score for one in ACTIVATIONS[:2] for score in results.scores(results.tasks[1], one))
    return Claim(
        "A healthy network has an effective activation rate of 60 to 80 %.",
        together(verdict(min(rates), max(rates), HEALTHY) for rates in found.values()),
        f"Over their sites and seeds: {told}. The worst of these networks has {accuracy:.1f} % accuracy on digits, "
        f"and a perplexity of {math.exp(nats):.1f} on text, where a guess has 256.",
    )

"""Populations of scored rows whose true metric and loss are known, and how often intervals on samples of them hold.

A population is a table of rows that samples are drawn from with replacement, so that what is true of it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
from scipy.stats import binom, multinomial

from gelu_deploy.arrays import Array
from gelu_deploy.results import Estimate
from gelu_deploy.scoring.metric import Metric, named
from gelu_deploy.scoring.statistics import difference, estimate, loss_difference

CONFIDENCES = (0.9, 0.95, 0.99)
SIZE = 20_000
TOP1 = named("top1")
OVERLAP = Metric("overlap", lambda outputs, *_: outputs["overlap"])
"""Stands for a score of a user's, a real number for each row."""


@dataclass(frozen=True)
class Population:
    """Scores of all rows before and after, ``[rows, 2]``."""

    name: str
    metric: Metric
    before: Array
    after: Array

    @cached_property
    def values(self) -> tuple[float, float]:
        """The metric before and after."""
        first, second = (
            self.metric.finish(float(one[:, 0].sum() / one[:, 1].sum())) for one in (self.before, self.after)
        )
        return first, second

    @property
    def loss(self) -> float:
        return (self.values[0] - self.values[1]) * (1 if self.metric.higher_is_better else -1)

    @property
    def changed(self) -> float:
        """Share of rows that are scored differently."""
        return float(np.mean(np.any(self.before != self.after, axis=1)))

    def sample(self, random: np.random.Generator, rows: int) -> tuple[Array, Array]:
        drawn = random.integers(0, len(self.before), rows)
        return self.before[drawn], self.after[drawn]


@cache
def shares(accuracy: float, lost: float, gained: float) -> Population:
    """Rows that are right or wrong."""
    right = np.arange(SIZE) < round(accuracy * SIZE)
    changed = (np.arange(SIZE) < round(lost * SIZE)) | (np.arange(SIZE) >= SIZE - round(gained * SIZE))
    one = np.ones(SIZE)
    name = f"top-1, {accuracy:.0%} right, {lost:.2%} lost, {gained:.2%} gained"
    return Population(name, TOP1, np.stack([right, one], axis=1), np.stack([right ^ changed, one], axis=1))


@cache
def tokens(accuracy: float, flips: float) -> Population:
    """Classes of 10 to 60 tokens a row; rows differ in how hard they are and how much they suffer."""
    random = np.random.default_rng(1)
    asked = random.integers(10, 61, SIZE)
    right = random.binomial(asked, random.beta(6 * accuracy, 6 * (1 - accuracy), SIZE))
    suffering = np.minimum(flips * random.gamma(0.5, 2, SIZE), 1)
    after = right - random.binomial(right, suffering) + random.binomial(asked - right, suffering / 2)
    return Population(f"tokens, {accuracy:.0%} right, {flips:.1%} flip", TOP1, *_with(asked, right, after))


@cache
def perplexity(shift: float) -> Population:
    """Nats of 10 to 80 tokens a row, correlated from one token to the next and within the row, as the change is."""
    random = np.random.default_rng(2)
    length, longest = random.integers(10, 81, SIZE), 80
    mood = random.normal(size=(longest, SIZE))
    for before, now in pairwise(mood):
        now[:] = 0.6 * before + 0.8 * now
    nats = random.exponential(np.exp(0.8 + random.normal(0, 0.4, SIZE) + 0.5 * mood))
    noise = shift * (1 + random.normal(0, 3, SIZE)) + 0.2 * np.sqrt(nats) * random.normal(size=nats.shape)
    there = np.arange(longest)[:, None] < length
    summed = [np.sum(np.maximum(one, 0) * there, axis=0) for one in (nats, nats + noise)]
    return Population(f"perplexity, {shift:+.2f} nats", named("perplexity"), *_with(length, *summed))


@cache
def characters(rate: float, changed: float, lost: float) -> Population:
    """Wrong characters of 10 to 80 a row, most of them in hard rows; changed rows change by one to four, mostly one."""
    random = np.random.default_rng(3)
    length = random.integers(10, 81, SIZE)
    wrong = random.binomial(length, np.minimum(rate * random.gamma(0.5, 2, SIZE), 1))
    sign = np.where(random.random(SIZE) < lost, 1, -1) * (random.random(SIZE) < changed)
    after = np.clip(wrong + sign * random.choice(4, SIZE, p=[0.6, 0.25, 0.1, 0.05]) + sign, 0, length)
    return Population(
        f"CER {rate:.0%}, {changed:.0%} aimed at, {lost:.0%} worse", named("cer"), *_with(length, wrong, after)
    )


@cache
def overlaps(changed: float) -> Population:
    """Real scores between 0 and 1, of which a share changes."""
    random = np.random.default_rng(4)
    before = random.beta(8, 2, SIZE)
    moved = np.clip(before - random.normal(0.01, 0.04, SIZE), 0, 1)
    after = np.where(random.random(SIZE) < changed, moved, before)
    return Population(f"scores in [0, 1], {changed:.0%} change", OVERLAP, *_with(np.ones(SIZE), before, after))


def _with(below: Array, *above: Array) -> list[Array]:
    return [np.stack([one, below], axis=1).astype(np.float64) for one in above]


def coverage(population: Population, rows: int, draws: int) -> Array:
    """Share of samples whose intervals hold the true metric, and the true loss, ``[confidences, 2]``."""
    random = np.random.default_rng(rows)
    hits = np.zeros((len(CONFIDENCES), 2))
    for _ in range(draws):
        before, after = population.sample(random, rows)
        for own, confidence in zip(hits, CONFIDENCES, strict=True):
            value = estimate(before, population.metric, confidence)
            lost = difference(before, after, population.metric, confidence, None, "")["loss"]
            own += [_holds(value, population.values[0]), _holds(lost, population.loss)]
    return hits / draws


def twin_coverage(model: Population, twin: Population, rows: int, confidence: float, draws: int) -> float:
    """The same of the difference of two losses; twins are right and wrong independently of each other."""
    random, hits = np.random.default_rng(rows), 0
    for _ in range(draws):
        own, other = model.sample(random, rows), twin.sample(random, rows)
        hits += _holds(loss_difference(*own, *other, model.metric, confidence), model.loss - twin.loss)
    return hits / draws


def exact_coverage(rows: int, lost: float, gained: float, confidence: float) -> float:
    """Of the loss between rows right and wrong: no samples, but every pair of counts with its probability."""
    spans = [_likely(rows, rate) for rate in (lost, gained)]
    pairs = np.array([(a, b, rows - a - b) for a in spans[0] for b in spans[1] if a + b <= rows])
    weights = multinomial.pmf(pairs, rows, [lost, gained, 1 - lost - gained])
    hits = [_holds(_loss_of(rows, a, b, confidence), lost - gained) for a, b, _ in pairs]
    return float(np.average(hits, weights=weights))


def exact_share_coverage(rows: int, accuracy: float, confidence: float) -> float:
    """Of the accuracy itself."""
    span = _likely(rows, accuracy)
    hits = [_holds(estimate(_ones(rows, count), TOP1, confidence), accuracy) for count in span]
    return float(np.average(hits, weights=binom.pmf(span, rows, accuracy)))


def _loss_of(rows: int, lost: int, gained: int, confidence: float) -> Estimate:
    after = np.concatenate([np.zeros(lost), np.ones(rows - lost)])
    before = np.concatenate([np.ones(lost), np.zeros(gained), np.ones(rows - lost - gained)])
    return difference(before, after, TOP1, confidence, None, "")["loss"]


def _ones(rows: int, count: int) -> Array:
    return np.where(np.arange(rows) < count, 1.0, 0.0)


def _likely(rows: int, rate: float) -> Array:
    """Counts that all but one in 10 000 draws lie within."""
    low, high = binom.ppf([5e-5, 1 - 5e-5], rows, rate).astype(int)
    return np.arange(low, high + 1)


def _holds(interval: Estimate, true: float) -> bool:
    return interval["low"] <= true <= interval["high"]


@dataclass(frozen=True)
class Told:
    """Whether so many rows more were right within a factor of 1.5.

    Attributes:
        right: Share of runs in which the budget was reached neither before 1/1.5 of what was told, nor after 1.5 of it.
        runs: In which some number was told.
        changes: Rows that changed among those that it was told from, as many equal ones as would tell as much: (sum of
            squares)² over the sum of fourth powers; on average.
        total: What was told, rows in all, median.
    """

    right: float
    runs: int
    changes: float
    total: float


def told(population: Population, rows: int, confidence: float, budget: float, draws: int) -> Told:
    """Ask after so many rows how many more it takes; then draw them."""
    random = np.random.default_rng(rows)
    found = []
    for _ in range(draws):
        before, after = population.sample(random, rows)
        more = difference(before, after, population.metric, confidence, budget, "")["more_rows"]
        if more:
            total = rows + more
            most = population.sample(random, int(1.5 * total) - rows)
            longer = np.concatenate([before, most[0]]), np.concatenate([after, most[1]])
            early, late = (
                _half(longer, max(rows, int(part * total)), population.metric, confidence) for part in (1 / 1.5, 1.5)
            )
            found.append((early > budget >= late, _effective(before, after), total))
    right, changes, totals = np.array(found).T
    return Told(float(right.mean()), len(found), float(changes.mean()), float(np.median(totals)))


def _half(pair: tuple[Array, Array], rows: int, metric: Metric, confidence: float) -> float:
    """Half the width of the interval that the first rows give."""
    loss = difference(pair[0][:rows], pair[1][:rows], metric, confidence, None, "")["loss"]
    return (loss["high"] - loss["low"]) / 2


def _effective(before: Array, after: Array) -> float:
    """Of changes in the numerators, the denominators being the same."""
    squares = (after[:, 0] - before[:, 0]) ** 2
    return float(squares.sum() ** 2 / max(1e-300, np.sum(squares**2)))

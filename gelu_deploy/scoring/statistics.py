"""How sure one can be of a score and of a loss on the same rows, and how many rows more would settle it.

Rows are what is sampled: intervals come from how whole rows differ, so that tokens of a row may depend on each other.
It knows nothing of models, of answers, or of what a loss may be.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gelu_deploy.arrays import Array
from gelu_deploy.errors import SetupError, UsageError
from gelu_deploy.results import DifferenceResult, Estimate
from gelu_deploy.scoring.metric import Metric
from gelu_deploy.scoring.metrics import McNemar

UNSEEN = 0.5
"""Changed rows that are added to those seen before their rate is carried on to rows to come (Jeffreys' prior)."""
MOST = 10**12
"""No answer to how many rows is larger."""


def estimate(scores: Array, metric: Metric, confidence: float) -> Estimate:
    """The metric on all rows, and the interval that holds what it is on the population with this confidence.

    Counts out of counts (rows right, tokens right, characters wrong) get Wilson's interval, at the number of
    independent trials that would vary as much; for rows that are 0 or 1 that is their number. Anything else gets
    Student's t of the linearised ratio. The ends go through ``metric.finish``.

    Args:
        scores: What ``metric.score`` gave, ``[rows]`` or ``[rows, 2]``.
        metric: Whose they are.
        confidence: Between 0 and 1.

    Raises:
        UsageError: No row counts, or the confidence is no share.
        SetupError: SciPy is not installed.
    """
    (ratio,) = _ratios([scores], metric)
    low, high = sorted(metric.finish(end) for end in _ends(ratio, confidence))
    return Estimate(value=ratio.finished, low=low, high=high)


def difference(
    before: Array, after: Array, metric: Metric, confidence: float, budget: float | None, against: str
) -> DifferenceResult:
    """How much worse ``after`` is than ``before``, row by row; a loss is positive whichever way the metric runs.

    The interval is that of the mean of paired differences. To the rows seen it adds, as Agresti and Coull do for one
    share, z²/2 that lost and z²/2 that gained, each as much as changed rows did (root of the mean square), so that few
    changed rows, or none, do not pass for certainty. Where changed rows changed by different amounts, z is Student's t
    with Satterthwaite's degrees of freedom.

    Args:
        before: Scores ``[rows]`` or ``[rows, 2]``.
        after: Scores of the same rows.
        metric: Whose they are.
        confidence: Between 0 and 1.
        budget: The loss that is allowed, in units of the finished metric, for the number of rows that tell it from
            none; None or 0, which no number of rows reaches, to ask for no number.
        against: Name of what gave ``before``, for the result.

    Raises:
        UsageError: No row counts, or the confidence is no share.
        SetupError: SciPy is not installed.
    """
    first, second = _ratios([before, after], metric)
    losses = _losses(first, second)
    test = _mcnemar(first, second)
    return DifferenceResult(
        against=against,
        loss=losses.interval(confidence),
        lost=test.lost if test else 0,
        gained=test.gained if test else 0,
        p=test.p if test else math.nan,
        more_rows=losses.missing(confidence, budget) if budget else 0,
    )


def loss_difference(
    model_before: Array, model_after: Array, twin_before: Array, twin_after: Array, metric: Metric, confidence: float
) -> Estimate:
    """How much larger the model's loss is than its twin's, all on the same rows, as :func:`difference` has it."""
    ratios = _ratios([model_before, model_after, twin_before, twin_after], metric)
    return _losses(*ratios[:2]).less(_losses(*ratios[2:])).interval(confidence)


@dataclass(frozen=True)
class _Ratio:
    """A metric as a ratio of sums over rows.

    Attributes:
        above: Numerators ``[rows]``.
        below: Denominators.
        metric: Which.
    """

    above: Array
    below: Array
    metric: Metric

    @cached_property
    def value(self) -> float:
        return float(self.above.sum() / self.below.sum())

    @property
    def finished(self) -> float:
        return self.metric.finish(self.value)

    @cached_property
    def counts(self) -> bool:
        """Whether each row has so many out of so many."""
        whole = (np.floor(self.above) == self.above) & (np.floor(self.below) == self.below)
        return bool(np.all(whole & (self.above >= 0) & (self.above <= self.below)))

    @property
    def plain(self) -> bool:
        """Whether each row is 0 or 1."""
        return self.counts and bool(np.all(self.below == 1))

    @cached_property
    def pulls(self) -> Array:
        """How each row pulls the ratio away from its value, times the number of rows: the mean is 0."""
        pulls: Array = (self.above - self.value * self.below) / self.below.mean()
        return pulls

    @cached_property
    def slope(self) -> float:
        """Of the finish at the value."""
        step = 1e-6 * max(1.0, abs(self.value))
        return (self.metric.finish(self.value + step) - self.finished) / step


@dataclass(frozen=True)
class _Losses:
    """What each row lost.

    Attributes:
        each: Loss of each row ``[rows]``, negative for a gain; the mean is the loss.
        moved: By how much its numerator and denominator changed ``[2, rows]``.
        unit: How much a changed row loses, for when there is none to tell by.
    """

    each: Array
    moved: Array
    unit: float

    def less(self, other: _Losses) -> _Losses:
        """By how much these are larger."""
        return _Losses(self.each - other.each, self.moved - other.moved, max(self.unit, other.unit))

    def interval(self, confidence: float) -> Estimate:
        centre, half = self._interval(confidence, len(self.each))
        return Estimate(value=float(self.each.mean()), low=centre - half, high=centre + half)

    def missing(self, confidence: float, budget: float) -> int:
        """How many rows more of the same kind until half the interval is no wider than ``budget``."""
        rows = len(self.each)
        return bisect_left(range(rows, MOST), True, key=lambda n: self._interval(confidence, n)[1] <= budget)

    def _interval(self, confidence: float, rows: int) -> tuple[float, float]:
        """Centre and half the width after so many rows, those seen and more of the same kind."""
        growth = rows / len(self.each) - 1
        changes = self._count + (self._count + UNSEEN) * growth
        energy = self._energy + (self._energy + UNSEEN * self._size) * growth
        added = _quantile(confidence, rows - 1) ** 2
        freedom = min(2 * changes / self._unevenness, rows - 1) if self._unevenness else rows - 1
        total = rows + added
        centre = float(self.each.mean()) * rows / total
        variance = (energy + added * self._size) / total - centre**2
        return centre, _quantile(confidence, freedom) * math.sqrt(variance / total)

    @cached_property
    def _squares(self) -> Array:
        return self.each[self.moved.any(axis=0)] ** 2

    @cached_property
    def _count(self) -> int:
        return len(self._squares)

    @cached_property
    def _energy(self) -> float:
        return float(np.sum(self.each**2))

    @cached_property
    def _size(self) -> float:
        """Mean square of what a changed row lost or gained."""
        return float(self._squares.mean()) if self._count else self.unit**2

    @cached_property
    def _unevenness(self) -> float:
        """Variance of those squares over the square of their mean: 0 where all rows changed by the same amount."""
        return float(self._squares.var(ddof=1)) / self._size**2 if self._count > 1 and self._size else 0.0


def _ratios(several: Sequence[Array], metric: Metric) -> list[_Ratio]:
    """As ratios, without the rows in which nothing counts. Raises UsageError where none is left."""
    columns = [_columns(one.astype(np.float64)) for one in several]
    counted = np.logical_or.reduce([column != 0 for pair in columns for column in pair])
    if not all(below[counted].sum() > 0 for _, below in columns):
        raise UsageError(f"{metric.name}: no row counts. Are all labels padding (below 0)?")
    return [_Ratio(above[counted], below[counted], metric) for above, below in columns]


def _columns(scores: Array) -> tuple[Array, Array]:
    return (scores[:, 0], scores[:, 1]) if scores.ndim == 2 else (scores, np.ones_like(scores))


def _ends(ratio: _Ratio, confidence: float) -> tuple[float, float]:
    """Both ends of the interval, before the finish."""
    rows, value = len(ratio.above), ratio.value
    variance = float(np.mean(ratio.pulls**2)) / rows
    if ratio.counts:
        return _wilson(value, _trials(ratio, variance), _quantile(confidence, math.inf if ratio.plain else rows - 1))
    half = _quantile(confidence, rows - 1) * math.sqrt(variance * rows / (rows - 1)) if rows > 1 else math.inf
    low = value - half
    return (max(low, 0.0) if ratio.above.min() >= 0 else low), value + half


def _trials(ratio: _Ratio, variance: float) -> float:
    """Independent trials that would vary as much; one for each row where nothing varies and all are right or wrong."""
    independent = ratio.value * (1 - ratio.value)
    if not independent:
        return len(ratio.above)
    most = float(ratio.below.sum())
    return min(independent / variance, most) if variance else most


def _wilson(share: float, trials: float, z: float) -> tuple[float, float]:
    """Wilson's score interval (1927)."""
    grown = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / grown
    half = z / grown * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def _losses(before: _Ratio, after: _Ratio) -> _Losses:
    sign = 1 if before.metric.higher_is_better else -1
    each = before.finished - after.finished + before.slope * before.pulls - after.slope * after.pulls
    moved = np.stack([after.above - before.above, after.below - before.below])
    one = 1 / float(before.below.mean()) if before.counts and after.counts else 0.0
    return _Losses(sign * each, moved, abs(before.slope) * max(float(before.pulls.std()), one))


def _mcnemar(before: _Ratio, after: _Ratio) -> McNemar | None:
    """Rows that only one gets right; None where rows are more than right or wrong."""
    if not (before.plain and after.plain):
        return None
    rose, fell = int(np.sum(after.above > before.above)), int(np.sum(after.above < before.above))
    return McNemar(fell, rose) if before.metric.higher_is_better else McNemar(rose, fell)


def _quantile(confidence: float, freedom: float) -> float:
    """Student's t that a two-sided interval of this confidence reaches to; the normal one for infinite freedom."""
    if not 0 < confidence < 1:
        raise UsageError(f"a confidence of {confidence:g}: expected a share between 0 and 1, such as 0.95")
    try:
        from scipy.special import stdtrit
    except ImportError:
        raise SetupError(
            "Intervals are computed with SciPy, which is not installed: pip install 'gelu-deploy[report]'"
        ) from None
    return float(stdtrit(max(freedom, 1), (1 + confidence) / 2))

"""All variants over the judged data, read once: scores by row, and how far each is from the one it is held against.

A batch of answers at a time is in memory, with a few numbers for each row. It knows neither files nor budgets.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.comparison.candidates import Run
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.errors import UsageError
from gelu_deploy.quantization.measures.judging import Noise, has_classes
from gelu_deploy.scoring import metrics
from gelu_deploy.scoring.metric import Metric, named

AGREEMENT = named("top1")
"""Of two networks' answers: that of one, the other's classes being right. Without labels it is the metric, too: the
float file's answers are right then."""


@dataclass
class Answered:
    """What one variant answered.

    Attributes:
        scores: Of each row, as the metric has them: float64 [rows], or [rows, 2]; None where nothing is right or wrong.
        same: The same with the classes of the one it is held against for labels, by :data:`AGREEMENT`; None where there
            is no such one, or no classes.
        kl: Mean divergence from that one's distributions, in nats; NaN likewise.
        sqnr: Against that one's answers, in dB; NaN where there is none.
    """

    scores: Array | None
    same: Array | None
    kl: float
    sqnr: float

    @property
    def agreement(self) -> float:
        """Share of answers that are the other one's."""
        return math.nan if self.same is None else float(np.divide(*self.same.sum(axis=0)))


@dataclass(frozen=True)
class Judged:
    """What all answered, by name.

    Attributes:
        rows: How many rows there were.
        labelled: Whether they had labels.
        answers: Of each variant.
    """

    rows: int
    labelled: bool
    answers: Mapping[str, Answered]


def judged(
    runs: Mapping[str, Run],
    against: Mapping[str, str],
    data: Dataset,
    metric: Metric,
    truth: str,
    strangers: Collection[str] = (),
) -> Judged:
    """Run and score all.

    Args:
        runs: Each variant, by name.
        against: Name of the variant that each one's answers are held against; ``""`` for none.
        data: What they are judged on.
        metric: How answers are scored.
        truth: Name of the variant whose answers are right where there are no labels and the metric is top-1.
        strangers: Names of those that are not scored then, being other networks.

    Raises:
        UsageError: Data do not fit, some batches have labels and others none, or the metric needs labels.
    """
    tallies = {name: _Tally() for name in runs}
    rows, labelled = 0, None
    for batch in data:
        labelled = _labelled(batch, labelled, data.name, metric)
        rows += batch.rows
        answers = {name: run(batch.inputs) for name, run in runs.items()}
        labels = _labels(batch, answers[truth], metric)
        for name, tally in tallies.items():
            other = answers.get(against.get(name, ""))
            if other is not None:
                tally.compare(other, answers[name], batch.inputs)
            known = labelled or not metric.needs_labels or (labels is not None and name not in strangers)
            if known:
                tally.scores.append(metric.score(answers[name], labels, batch.inputs))
    return Judged(rows, bool(labelled), {name: tally.answered() for name, tally in tallies.items()})


def rehearsed(run: Run, batch: Batch, name: str, metric: Metric) -> None:
    """Score one batch, to find what cannot be scored before minutes are spent; ``name`` is that of the data.

    Raises:
        UsageError: As for :func:`judged`.
    """
    judged({name: run}, {}, Dataset(name, lambda: [batch], divisible=False), metric, name)


@dataclass
class _Tally:
    """What is added up of one variant."""

    scores: list[Array] = field(default_factory=list[Array])
    same: list[Array] = field(default_factory=list[Array])
    divergence: float = 0.0
    counted: int = 0
    noise: Noise = field(default_factory=Noise)

    def compare(self, wanted: Arrays, got: Arrays, inputs: Arrays) -> None:
        self.noise.add(wanted, got)
        reference, own = (next(iter(answers.values())) for answers in (wanted, got))
        if has_classes(reference):
            classes = metrics.predictions(reference)
            self.same.append(AGREEMENT.score(got, classes, inputs))
            self.divergence += metrics.kl(reference, own) * classes.size
            self.counted += classes.size

    def answered(self) -> Answered:
        return Answered(
            scores=np.concatenate(self.scores) if self.scores else None,
            same=np.concatenate(self.same) if self.same else None,
            kl=self.divergence / self.counted if self.counted else math.nan,
            sqnr=self.noise.db,
        )


def _labelled(batch: Batch, before: bool | None, name: str, metric: Metric) -> bool:
    """Whether the data have labels. Raises UsageError where only some have, or none has and the metric needs them."""
    now = batch.labels is not None
    if before is not None and before != now:
        raise UsageError(f"{name}: some batches have labels and others have none; give all of them labels, or none")
    if not now and metric.needs_labels and metric.name != AGREEMENT.name:
        raise UsageError(f"--metric {metric.name} needs labels and {name} has none: add them under 'labels'")
    return now


def _labels(batch: Batch, truth: Arrays, metric: Metric) -> Array | None:
    """The batch's own, else for top-1 what the float file answers, if that is classes."""
    first = next(iter(truth.values()))
    if batch.labels is not None or metric.name != AGREEMENT.name or not has_classes(first):
        return batch.labels
    return metrics.predictions(first)

"""All that was measured, and how two of its numbers differ: over seeds, always the same way round.

It knows nothing of how a network is trained or quantized, and judges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from studying.schemes import VARIANTS, Measured
from studying.statistics import Paired
from studying.training import Task

UNITS = {"digits": "points", "text": "%"}
"""Of what one network is worse by: points of accuracy; percent of perplexity."""
RUIN = 10.0
"""What INT8 costs, in these units, where it leaves nothing to be compared."""


@dataclass(frozen=True)
class Results:
    """One network of each seed, by task and variant; lists of different variants run over the same seeds.

    Attributes:
        tasks: What the networks were trained for.
        measured: By the name of the task and the variant.
    """

    tasks: tuple[Task, ...]
    measured: Mapping[tuple[str, str], Sequence[Measured]]

    def scores(self, task: Task, variant: str, scheme: str = "float") -> list[float]:
        """Accuracies in percent, or nats per byte."""
        return [one["schemes"][scheme]["score"] for one in self.measured[task.name, variant]]

    def noise(self, task: Task, variant: str, scheme: str) -> list[float]:
        """Signal over quantization noise of the logits, in dB."""
        return [one["schemes"][scheme]["sqnr"] for one in self.measured[task.name, variant]]

    def other(self, task: Task, variant: str, scheme: str = "float") -> Paired:
        """By how much another variant is worse than GELU."""
        return Paired.of(_worse(task, self.scores(task, variant, scheme), self.scores(task, "gelu", scheme)))

    def swapped(self, task: Task) -> Paired:
        """By how much GELU's networks are worse once every GELU is a ReLU."""
        scores = [one["swapped"] for one in self.measured[task.name, "gelu"]]
        return Paired.of(_worse(task, scores, self.scores(task, "gelu")))

    def tanh(self, task: Task, scheme: str) -> Paired:
        """By how much the tanh form is worse than exact GELU, with the same weights and scheme."""
        return Paired.of(_worse(task, self.scores(task, "tanh", scheme), self.scores(task, "gelu", scheme)))

    def costs(self, task: Task, variant: str, scheme: str) -> list[float]:
        """By how much each INT8 network is worse than itself in float."""
        return _worse(task, self.scores(task, variant, scheme), self.scores(task, variant))

    def sound(self, schemes: Iterable[str]) -> list[tuple[Task, str]]:
        """The tasks and schemes in which INT8 ruins no activation's networks."""
        return [
            (task, scheme)
            for task in self.tasks
            for scheme in schemes
            if all(Paired.of(self.costs(task, variant, scheme)).mean < RUIN for variant in VARIANTS)
        ]

    def gain(self, task: Task, variant: str, scheme: str) -> Paired:
        """By how much INT8 costs another variant more than GELU."""
        pairs = zip(self.costs(task, variant, scheme), self.costs(task, "gelu", scheme), strict=True)
        return Paired.of([theirs - ours for theirs, ours in pairs])

    def louder(self, task: Task, variant: str, scheme: str) -> Paired:
        """By how many dB GELU's signal stands further over the noise than another variant's."""
        pairs = zip(self.noise(task, "gelu", scheme), self.noise(task, variant, scheme), strict=True)
        return Paired.of([ours - theirs for ours, theirs in pairs])

    def rates(self, task: Task, variant: str) -> list[list[float]]:
        """Effective activation rates in percent, by site and seed."""
        found = [one["effective"] for one in self.measured[task.name, variant]]
        return [[100 * rate for rate in site] for site in zip(*found, strict=True)]


def _worse(task: Task, scores: Sequence[float], than: Sequence[float]) -> list[float]:
    """Seed by seed: points of accuracy lost, or percent by which the perplexity is higher."""
    pairs = list(zip(scores, than, strict=True))
    if task.name == "digits":
        return [base - score for score, base in pairs]
    return [100 * math.expm1(score - base) for score, base in pairs]

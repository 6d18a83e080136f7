"""Where the error of a variant comes from: one cause more in each run, from the original to the variant itself.

It knows neither files nor what the causes are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.data import Batch
from gelu_deploy.quantization.measures.judging import has_classes
from gelu_deploy.results import WaterfallResult, WaterfallStep
from gelu_deploy.scoring.metrics import Energy, predictions

Run = Callable[[Arrays], Arrays]


def waterfall(variant: str, runs: Sequence[tuple[str, Run]], data: Iterable[Batch]) -> WaterfallResult:
    """All runs on all of the data, read once; a batch of answers at a time is in memory.

    The noise of a run is the energy of its error over that of the original's answers, mean over the float outputs; with
    one output that is what an SQNR in dB says. The noise of a step is that of its run less that of the run before: they
    add up to the whole, and one is negative where a cause undoes some of the errors before it. Where answers are not
    finite, noise is infinite: so is the step that brings that, the next is 0 if they stay so, −inf if they do not.

    A flip is an answer (the class of a row of the first output) that is not that of the run before; none are counted
    where the first output has no classes.

    Args:
        variant: What the last run is.
        runs: Name and function of the original, which has no step, then of each cause together with all before it.
            Outputs are matched by their order.
        data: Labels are not looked at.

    Returns:
        Noise is NaN where no output is float.

    Raises:
        ValueError: Two runs give different numbers or shapes of outputs.
        UsageError: The data do not fit the inputs.
    """
    (_, original), *causes = runs
    counted, flips = [_Counted() for _ in causes], 0
    for batch in data:
        wanted = list(original(batch.inputs).values())
        first = before = _answers(wanted[0])
        for (_, run), one in zip(causes, counted, strict=True):
            got = list(run(batch.inputs).values())
            now = _answers(got[0])
            one.add(wanted, got, int(np.count_nonzero(now != before)))
            before = now
        flips += int(np.count_nonzero(before != first))
    noises = [0.0, *(one.noise for one in counted)]
    steps = [
        WaterfallStep(name=name, noise=_increment(*pair), flips=one.flips)
        for (name, _), pair, one in zip(causes, pairwise(noises), counted, strict=True)
    ]
    return WaterfallResult(variant=variant, steps=steps, noise=noises[-1], sqnr=_decibels(noises[-1]), flips=flips)


@dataclass
class _Counted:
    """One run against the original, added up batch by batch."""

    energies: dict[int, Energy] = field(default_factory=dict[int, Energy])
    flips: int = 0

    def add(self, wanted: Sequence[Array], got: Sequence[Array], flips: int) -> None:
        for place, (right, answer) in enumerate(zip(wanted, got, strict=True)):
            if right.dtype.kind == "f":
                self.energies.setdefault(place, Energy()).add(right, answer)
        self.flips += flips

    @property
    def noise(self) -> float:
        """Relative to the signal."""
        return float(np.mean([_relative(one) for one in self.energies.values()])) if self.energies else math.nan


def _answers(first: Array) -> Array:
    return predictions(first) if has_classes(first) else np.zeros(0)


def _relative(energy: Energy) -> float:
    if energy.noise == 0:
        return 0.0
    return energy.noise / energy.signal if energy.signal else math.inf


def _increment(before: float, after: float) -> float:
    return 0.0 if before == after else after - before


def _decibels(noise: float) -> float:
    return -10 * math.log10(noise) if noise else math.inf

"""Float and integer answers to the same data: signal over noise, agreement, answers lost and gained.

It decides nothing; ``metrics`` has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.errors import UsageError
from gelu_deploy.quantization.network import Network
from gelu_deploy.scoring import metrics

JUDGED = 8
"""Batches that judge a decision, and that a candidate's ranges are measured on, where there are more."""


class Judge:
    """SQNR of an integer model's answers on held-out data, against the float network's, which are kept."""

    def __init__(self, network: Network, held: Dataset) -> None:
        self._batches = [batch.inputs for batch in islice(held, JUDGED)]
        with network.showing((), optimise=True) as run:
            self._wanted = [run(batch) for batch in self._batches]

    def __call__(self, model: ir.Model) -> float:
        """Mean over the float outputs, in dB; NaN where there are none."""
        with runtime.Evaluation(model, optimise=True) as run:
            return noise(zip(self._wanted, map(run, self._batches), strict=True))


@dataclass
class Noise:
    """Noise on answers, by output, over any number of batches."""

    energies: dict[str, metrics.Energy] = field(default_factory=dict[str, metrics.Energy])

    def add(self, wanted: Arrays, got: Arrays) -> None:
        """One batch of answers and what was wanted; only the float outputs count."""
        for name, array in wanted.items():
            if array.dtype.kind == "f":
                self.energies.setdefault(name, metrics.Energy()).add(array, got[name])

    @property
    def db(self) -> float:
        """SQNR in dB, mean over the float outputs; NaN where there are none."""
        return float(np.mean([energy.db for energy in self.energies.values()])) if self.energies else math.nan


def noise(pairs: Iterable[tuple[Arrays, Arrays]]) -> float:
    """SQNR of answers (second) against what was wanted (first), as :attr:`Noise.db`."""
    total = Noise()
    for wanted, got in pairs:
        total.add(wanted, got)
    return total.db


@dataclass
class Compared:
    """An integer model beside the float network, over all data.

    Attributes:
        sqnr: Of the answers, in dB, mean over the float outputs.
        agreement: Share of rows with the same class; NaN where the first output has no classes.
        finite: Whether every answer was finite where float's was.
        rows: Labelled rows; 0 without labels.
        before: Float's accuracy on them.
        after: The integer model's.
        test: What was lost and gained.
    """

    sqnr: float
    agreement: float
    finite: bool
    rows: int = 0
    before: float = math.nan
    after: float = math.nan
    test: metrics.McNemar = field(default_factory=lambda: metrics.McNemar(0, 0))


def compared(network: Network, model: ir.Model, data: Dataset) -> Compared:
    """Both on all of ``data``, read once; a batch of answers at a time is in memory.

    Raises:
        UsageError: The data do not fit the inputs, or labels do not fit the first output.
    """
    seen, labels = list[tuple[Array, Array]](), list[Array | None]()
    finite = True

    def pairs(float_run: runtime.Evaluation, run: runtime.Evaluation) -> Iterable[tuple[Arrays, Arrays]]:
        nonlocal finite
        for batch in data:
            wanted, got = float_run(batch.inputs), run(batch.inputs)
            finite = finite and all(_finite(wanted[name], got[name]) for name in wanted)
            first = next(iter(wanted))
            if has_classes(wanted[first]):
                seen.append((metrics.predictions(wanted[first]), metrics.predictions(got[first])))
                labels.append(_labels(batch, seen[-1][0], data.name))
            yield wanted, got

    with network.showing((), optimise=True) as float_run, runtime.Evaluation(model, optimise=True) as run:
        sqnr = noise(pairs(float_run, run))
    if not seen:
        return Compared(sqnr, math.nan, finite)
    before, after = (np.concatenate([one[place].reshape(-1) for one in seen]) for place in (0, 1))
    found = Compared(sqnr, float(np.mean((before == after) & (before >= 0))), finite)
    known = [one.reshape(-1) for one in labels if one is not None]
    if len(known) == len(labels):
        _judge(found, before, after, np.concatenate(known))
    return found


class Exam:
    """Points that an integer model loses on some data: of accuracy where all rows have labels, else of agreement.

    Without labels the float network's own answers are the right ones.

    Raises:
        UsageError: The first output has no classes, or labels do not fit it.
    """

    def __init__(self, network: Network, data: Dataset) -> None:
        self._data = data
        answered, labels = list[Array](), list[Array | None]()
        with network.showing((), optimise=True) as run:
            for batch in data:
                first = next(iter(run(batch.inputs).values()))
                if not has_classes(first):
                    raise UsageError("the first output is not classes, so that no accuracy can be told from it")
                answered.append(metrics.predictions(first))
                labels.append(_labels(batch, answered[-1], data.name))
        known = [one for one in labels if one is not None]
        self.labelled = len(known) == len(labels)
        self._truth = known if self.labelled else answered
        self._before = self._right(answered)

    def __call__(self, model: ir.Model) -> float:
        """Points lost, negative where some are gained."""
        with runtime.Evaluation(model, optimise=True) as run:
            got = [metrics.predictions(next(iter(run(batch.inputs).values()))) for batch in self._data]
        return 100 * (self._before - self._right(got))

    def _right(self, answered: list[Array]) -> float:
        right = sum(int(np.sum(one == truth)) for one, truth in zip(answered, self._truth, strict=True))
        return right / max(1, sum(one.size for one in answered))


def has_classes(output: Array) -> bool:
    """Whether the last axis may be classes: float answers of more than one number."""
    return output.dtype.kind == "f" and output.ndim > 1 and output.shape[-1] > 1


def _judge(found: Compared, before: Array, after: Array, labels: Array) -> None:
    right, still = before == labels, after == labels
    found.rows, found.before, found.after = labels.size, float(right.mean()), float(still.mean())
    found.test = metrics.McNemar(int(np.sum(right & ~still)), int(np.sum(still & ~right)))


def _labels(batch: Batch, predicted: Array, name: str) -> Array | None:
    if batch.labels is None:
        return None
    if batch.labels.dtype.kind not in "biuf":
        raise UsageError(f"{name}: labels came as {batch.labels.dtype}, expected the numbers of the classes, from 0 on")
    if batch.labels.shape != predicted.shape:
        raise UsageError(
            f"{name}: labels came with shape {batch.labels.shape}, the first output gives classes of shape "
            f"{predicted.shape}; give one class for each"
        )
    return batch.labels


def _finite(wanted: Array, got: Array) -> bool:
    return wanted.dtype.kind != "f" or bool(np.isfinite(got[np.isfinite(wanted)]).all())

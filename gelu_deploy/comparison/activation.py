"""Which activation INT8 costs more: the model's or its twin's, on the same rows.

It knows nothing of graphs or of what the activations are but their names.
"""

from __future__ import annotations

from dataclasses import dataclass

from gelu_deploy.arrays import Array
from gelu_deploy.flow import RELU
from gelu_deploy.gelu import FORMS
from gelu_deploy.results import ActivationResult, Estimate
from gelu_deploy.scoring.metric import Metric
from gelu_deploy.scoring.statistics import difference, loss_difference

CALLED = {"erf": "GELU", RELU: "ReLU", "": "the network without either"}


@dataclass(frozen=True)
class Pair:
    """One network before and after.

    Attributes:
        activation: What to call it.
        before: Scores of its float file by row, as a metric gives them.
        after: Those of its INT8 file.
    """

    activation: str
    before: Array
    after: Array


def activation(precision: str, model: Pair, twin: Pair, metric: Metric, confidence: float) -> ActivationResult:
    """Model against twin.

    Args:
        precision: What both were quantized to.
        model: The network.
        twin: The same with another activation, on the same rows.
        metric: What scores are.
        confidence: Of the intervals.
    """
    own, other = (difference(one.before, one.after, metric, confidence, None, "")["loss"] for one in (model, twin))
    gap = loss_difference(model.before, model.after, twin.before, twin.after, metric, confidence)
    apart = difference(twin.before, model.before, metric, confidence, None, "")["loss"]
    if not metric.higher_is_better:
        apart = Estimate(value=-apart["value"], low=-apart["high"], high=-apart["low"])
    names = (_called(model), _called(twin)) if model.activation != twin.activation else ("the model", "the twin")
    losses = (
        f"{precision.upper()} costs {names[0]} {_said(own, metric, unit=True)} and {names[1]} {_said(other, metric)}"
    )
    return ActivationResult(
        model_loss=own,
        twin_loss=other,
        difference=gap,
        float_difference=apart,
        sentence=f"{losses}; {_verdict(gap, names, len(model.before), metric)}",
    )


def _called(one: Pair) -> str:
    """``GELU``, ``tanh GELU``, ``ReLU``: what people call the activation."""
    return CALLED.get(one.activation) or (f"{one.activation} GELU" if one.activation in FORMS else one.activation)


def _verdict(gap: Estimate, names: tuple[str, str], rows: int, metric: Metric) -> str:
    """What the data allow to say of the difference."""
    said = f"the difference of {_said(gap, metric)}"
    if gap["low"] > 0 or gap["high"] < 0:
        return f"{said} is told from zero with {rows} rows: {names[gap['high'] < 0]} loses more"
    return f"{said} is not told from zero with {rows} rows"


def _said(one: Estimate, metric: Metric, *, unit: bool = False) -> str:
    """``0.30 points (-0.10 to 0.70)``."""
    scale = 100 if metric.percent else 1
    value, low, high = (f"{one[end] * scale:.{2 if metric.percent else 3}f}" for end in ("value", "low", "high"))
    what = (" points" if metric.percent else f" of {metric.name}") if unit else ""
    return f"{value}{what} ({low} to {high})"

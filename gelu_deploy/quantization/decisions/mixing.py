"""The ranking of a network's operators by what each costs, and the layers that stay in float to hold a budget.

It reads what the user wrote as a budget, and asks ``sensitivity`` and ``judging``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from gelu_deploy.data import Dataset
from gelu_deploy.errors import UsageError
from gelu_deploy.quantization.calibration import observe, ranges
from gelu_deploy.quantization.decisions.deciding import Decided
from gelu_deploy.quantization.decisions.insert import static
from gelu_deploy.quantization.decisions.sensitivity import (
    Effect,
    Mixed,
    default_operators,
    fewest_float,
    rank,
    read_and_made,
)
from gelu_deploy.quantization.measures.judging import JUDGED, Exam
from gelu_deploy.quantization.measures.sidebyside import unsaturated
from gelu_deploy.quantization.network import Recipe


def points(text: str) -> float:
    """Points of accuracy: ``0.5%`` is 0.5, and so is ``0.005``. Raises UsageError."""
    number = text.removesuffix("%")
    try:
        found = float(number) * (1 if text.endswith("%") else 100)
    except ValueError:
        found = math.nan
    if not 0 <= found < 100:
        raise UsageError(f"--max-drop {text}: expected points of accuracy such as 0.5%, or a share such as 0.005")
    return found


def ranking(decided: Decided, fit: Dataset, held: Dataset, *, every: bool, seconds: float) -> list[Effect]:
    """What each layer, or every operator that default quantization would take, does to the answers alone.

    Args:
        decided: The static recipe.
        fit: Data for the ranges of operators that are no layers.
        held: Data to compare on.
        every: Whether all operators are ranked, or the layers only.
        seconds: Time to stop after.
    """
    network, recipe, end = decided.network, unsaturated(decided.recipe), time.monotonic() + seconds
    batches = [batch.inputs for batch in islice(held, JUDGED)]
    names = [layer.node for layer in network.layers if layer.node not in recipe.kept]
    if every:
        names = [name for name in default_operators(network) if name not in recipe.kept]
        values = [name for name in read_and_made(network, names) if name not in recipe.ranges]
        seen = observe(network, values, (batch.inputs for batch in islice(fit, JUDGED)))
        recipe = replace(recipe, ranges={**ranges(seen, "minmax"), **recipe.ranges})
    return rank(network, recipe, names, batches, seconds=end - time.monotonic())


def mixed(decided: Decided, effects: Sequence[Effect], exam: Exam, budget: float, seconds: float) -> Mixed:
    """The recipe with the fewest layers in float that loses at most ``budget`` points.

    Args:
        decided: The static recipe.
        effects: From :func:`ranking`; layers that it did not reach in time come last.
        exam: What is lost.
        budget: Points of accuracy, or of agreement.
        seconds: Time to stop after.
    """
    layers = {layer.node for layer in decided.network.layers} - decided.recipe.kept
    worst = [effect.node for effect in effects if effect.node in layers]
    worst += [layer.node for layer in decided.network.layers if layer.node in layers - set(worst)]

    def lost(recipe: Recipe) -> float:
        return exam(static(decided.with_recipe(recipe).corrected, unsaturated(recipe)))

    return fewest_float(decided.recipe, worst, lost, budget, seconds=seconds)

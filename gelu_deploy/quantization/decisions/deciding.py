"""The decisions of static INT8, in the order in which each needs the one before, every one judged on held-out data.

It joins the rooms around it. It opens no files and says nothing to anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import onnx_ir as ir

from gelu_deploy.arrays import Arrays
from gelu_deploy.data import Dataset
from gelu_deploy.progress import step
from gelu_deploy.quantization.calibration import Method, Observation, calibrated, choose, observe, ranges
from gelu_deploy.quantization.decisions.correct import corrected, restored
from gelu_deploy.quantization.decisions.floors import floored
from gelu_deploy.quantization.decisions.insert import needed, static
from gelu_deploy.quantization.decisions.outliers import guarded
from gelu_deploy.quantization.measures.cpu import Cpu
from gelu_deploy.quantization.measures.judging import JUDGED, Judge
from gelu_deploy.quantization.measures.saturation import Saturation, affected, repaired
from gelu_deploy.quantization.measures.sidebyside import unsaturated
from gelu_deploy.quantization.network import Network, Range, Recipe


@dataclass(frozen=True)
class Wishes:
    """What the user has decided already.

    Attributes:
        method: How ranges are cut; None to choose.
        kept: Nodes of layers that stay in float.
        guard: Whether outlier channels may be scaled or split.
        correct: Whether biases may be corrected.
        cache: Where calibrations are kept; None for nowhere.
    """

    method: Method | None = None
    kept: frozenset[str] = frozenset()
    guard: bool = True
    correct: bool = True
    cache: Path | None = None


@dataclass(frozen=True)
class Decided:
    """What came of it.

    Attributes:
        network: The float network as the guard left it; it answers as the file does.
        corrected: The same with corrected biases, which is what is quantized.
        recipe: How.
        method: How ranges were cut.
        scores: SQNR in dB on held-out data, by method.
        saturation: What pairs of products in 16 bits would do to each layer, before the repair, by node.
    """

    network: Network
    corrected: Network
    recipe: Recipe
    method: Method
    scores: Mapping[Method, float]
    saturation: Mapping[str, Saturation]

    def with_recipe(self, recipe: Recipe) -> Decided:
        """The same with other layers in float."""
        return replace(self, recipe=recipe, corrected=restored(self.corrected, self.network, recipe.kept))


def decide(network: Network, fit: Dataset, held: Dataset, cpu: Cpu, wishes: Wishes) -> Decided:
    """Everything about the static INT8 model of a network.

    Args:
        network: Ready, see ``prepare``.
        fit: Data that ranges, scales and biases are measured on.
        held: Other data, on which it is judged whether they help.
        cpu: Where the model is to run.
        wishes: What is decided already.

    Raises:
        ModelError: Something that must be quantized is not finite on these data.
        UsageError: The data do not fit the network's inputs.
    """
    judge = Judge(network, held)
    with step("calibrate"):
        seen = calibrated(network, _needed(network, wishes.kept), fit, wishes.cache)
    if wishes.guard:
        with step("guard outliers"):
            before, network = network, guarded(network, seen, lambda one: judge(_quick(one, fit, wishes.kept)))
            if network is not before:
                seen = calibrated(network, _needed(network, wishes.kept), fit, wishes.cache)
    recipe = Recipe({}, cpu.activation, cpu.weight, wishes.kept)
    method, cut, scores = _cut(network, floored(network, seen), recipe, judge, wishes.method)
    recipe = replace(recipe, ranges=cut)
    with step("look for saturation"):
        saturation = affected(network, recipe, _inputs(fit), cpu)
        recipe = repaired(recipe, saturation)
    better = network
    if wishes.correct:
        with step("correct biases"):
            how = unsaturated(recipe)
            better = corrected(network, how, _inputs(fit), lambda one: judge(static(one, how)))
    return Decided(network, better, recipe, method, scores, saturation)


def _cut(
    network: Network, seen: Mapping[str, Observation], recipe: Recipe, judge: Judge, method: Method | None
) -> tuple[Method, Mapping[str, Range], Mapping[Method, float]]:
    """The method, asked for or best on held-out data, its ranges, and what each scored."""

    def score(found: Mapping[str, Range]) -> float:
        return judge(static(network, unsaturated(replace(recipe, ranges=found))))

    with step("choose ranges"):
        if method is None:
            best = choose(seen, score)
            return best.method, best.ranges, best.scores
        found = ranges(seen, method)
        return method, found, {method: score(found)}


def _quick(network: Network, fit: Dataset, kept: Collection[str]) -> ir.Model:
    """The integer model of a candidate, with plain ranges of the first batches."""
    seen = observe(network, _needed(network, kept), _inputs(fit))
    return static(network, unsaturated(Recipe(ranges(floored(network, seen), "minmax"), kept=frozenset(kept))))


def _needed(network: Network, kept: Collection[str]) -> tuple[str, ...]:
    return needed(layer for layer in network.layers if layer.node not in kept)


def _inputs(data: Dataset) -> Iterator[Arrays]:
    return (batch.inputs for batch in islice(data, JUDGED))

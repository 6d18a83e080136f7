"""Which operator costs what when it alone is quantized, and the fewest layers that must stay float to hold a budget.

Both are anytime: what has been found when the time is up is the answer. It chooses no ranges and reads no files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.arrays import Arrays
from gelu_deploy.errors import GeluDeployError
from gelu_deploy.graph import hollow
from gelu_deploy.graph.scopes import module_of
from gelu_deploy.quantization.decisions.insert import SHAPES_ARE_THERE, static
from gelu_deploy.quantization.decisions.quiet import quiet
from gelu_deploy.quantization.network import Network, Recipe
from gelu_deploy.scoring import metrics

BLIND = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Expand", "Slice", "Split"})
"""Operators that the default quantization takes along and that only move numbers."""


@dataclass(frozen=True)
class Effect:
    """What quantizing one operator alone does to the network's answers.

    Attributes:
        node: The operator.
        op: Its type.
        module: Its PyTorch module, ``""`` if unknown.
        kl: Mean Kullback-Leibler divergence in nats, of float's answers from these; inf where they are no numbers.
        agreement: Share of rows with the same class.
        sqnr: Signal over noise of all outputs, in dB.
    """

    node: str
    op: str
    module: str
    kl: float
    agreement: float
    sqnr: float

    @property
    def rank(self) -> tuple[float, float]:
        """Sorts the worst first: what is not a number is worse than anything."""
        return (-math.inf if math.isnan(self.kl) else -self.kl, -math.inf if math.isnan(self.sqnr) else self.sqnr)


def default_operators(network: Network) -> tuple[str, ...]:
    """Nodes of the main graph that ONNX Runtime's default static quantization would change, layers among them."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    known = (set(QDQRegistry) | set(QLinearOpsRegistry)) - BLIND
    wanted = {layer.node for layer in network.layers}
    wanted |= {
        node.name or ""
        for node in network.model.graph
        if node.domain == "" and node.op_type in known and node.outputs[0].dtype in {None, ir.DataType.FLOAT}
    }
    return tuple(node.name or "" for node in network.model.graph if node.name in wanted)


def read_and_made(network: Network, names: Collection[str]) -> tuple[str, ...]:
    """The values whose ranges quantizing these nodes alone asks for."""
    constant = set(network.held.weights) | set(network.model.graph.initializers)
    found = dict[str, None]()
    for node in network.model.graph:
        if node.name in names:
            read = [value for value in node.inputs if value is not None and value.name not in constant]
            found.update({value.name or "": None for value in (*read, *node.outputs)})
    return tuple(found)


def rank(
    network: Network,
    recipe: Recipe,
    names: Sequence[str],
    batches: Sequence[Arrays],
    *,
    seconds: float = math.inf,
) -> list[Effect]:
    """Quantize each of these nodes alone and compare the answers; the worst first.

    Args:
        network: Float network.
        recipe: Its ranges hold what :func:`read_and_made` says; layers are quantized as it says, other operators as
            ONNX Runtime does by default.
        names: Nodes, the most doubtful first: those not reached in time are left out.
        batches: Inputs to compare on.
        seconds: Time to stop after.
    """
    end, layers = time.monotonic() + seconds, {layer.node for layer in network.layers}
    nodes = {node.name: node for node in network.model.graph}
    with network.showing(()) as plain:
        reference = [plain(batch) for batch in batches]
    found = list[Effect]()
    for name in names:
        if time.monotonic() > end:
            break
        if name in layers:
            model = static(network, replace(recipe, kept=frozenset(layers - {name})))
        else:
            model = by_default(network, nodes[name], recipe)
        node = nodes[name]
        found.append(Effect(name, node.op_type, module_of(node), *_compared(model, batches, reference)))
    return sorted(found, key=lambda effect: effect.rank)


def by_default(network: Network, node: ir.Node, recipe: Recipe) -> ir.Model:
    """The network with this operator alone quantized as ONNX Runtime does by default: what goes in and what comes out.

    Its integers are recorded between Q and DQ; whether there is an integer kernel does not matter here.
    """
    model = network.model.clone()
    model.metadata_props[SHAPES_ARE_THERE] = "onnxruntime.quant"
    with quiet():
        from onnxruntime.quantization import CalibrationMethod, QuantType
        from onnxruntime.quantization.calibrate import TensorsData
        from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

        ranges = {name: recipe.ranges[name] for name in read_and_made(network, {node.name or ""})}
        data = TensorsData(
            CalibrationMethod.MinMax, {n: (np.float32(a), np.float32(b)) for n, (a, b) in ranges.items()}
        )
        names, ops = [node.name], [node.op_type]
        quantizer = QDQQuantizer(
            ir.to_proto(model), False, False, QuantType.QInt8, QuantType.QUInt8, data, names, [], ops, {}
        )
        quantizer.quantize_model()
    made: ir.Model = ir.from_proto(quantizer.model.model)
    hollow.put_back(made, network.held)
    return made


def _compared(model: ir.Model, batches: Sequence[Arrays], reference: Sequence[Arrays]) -> tuple[float, float, float]:
    """Divergence, agreement and signal over noise; the worst there is where the runtime refuses the model."""
    energy, divergences, agreements = metrics.Energy(), list[float](), list[float]()
    try:
        with runtime.Evaluation(model, optimise=True) as run:
            for batch, wanted in zip(batches, reference, strict=True):
                got = run(batch)
                for name, array in _floats(wanted):
                    energy.add(array, got[name])
                    divergences.append(metrics.kl(array, got[name]))
                    agreements.append(metrics.agreement(array, got[name]))
    except GeluDeployError:
        return math.nan, 0.0, -math.inf
    return float(np.mean(divergences)), float(np.mean(agreements)), energy.db


def _floats(arrays: Arrays) -> Iterator[tuple[str, np.ndarray]]:
    return ((name, array) for name, array in arrays.items() if array.dtype.kind == "f" and array.ndim)


@dataclass(frozen=True)
class Mixed:
    """The outcome of a search for the fewest float layers.

    Attributes:
        recipe: With its ``kept`` layers.
        drop: What it loses, in the units of the judge.
        met: Whether that is within the budget.
        tried: (number of layers in float, what is lost), in the order of trying.
    """

    recipe: Recipe
    drop: float
    met: bool
    tried: tuple[tuple[int, float], ...]


def fewest_float(
    recipe: Recipe, worst_first: Sequence[str], judge: Callable[[Recipe], float], budget: float, *, seconds: float
) -> Mixed:
    """Leave the worst layers in float, one more at a time by halving, then put back each that is not needed.

    Args:
        recipe: What is quantized to begin with; what it keeps stays kept.
        worst_first: Nodes of layers, by :func:`rank`.
        judge: What a recipe loses, e.g. in points of accuracy; NaN is more than any budget.
        budget: The most that may be lost.
        seconds: Time to stop after; at least the first recipe is judged.
    """
    search = _Search(recipe, judge, budget, time.monotonic() + seconds)
    if search.holds(()) or not worst_first:
        return search.outcome()
    low, high = 0, len(worst_first)  # low does not hold; whether high does is asked first
    if not search.holds(worst_first):
        return search.outcome()
    while high - low > 1 and not search.late:
        middle = (low + high) // 2
        low, high = (low, middle) if search.holds(worst_first[:middle]) else (middle, high)
    kept = list(worst_first[:high])
    for name in reversed(worst_first[:high]):
        if search.late:
            break
        fewer = [one for one in kept if one != name]
        if search.holds(fewer):
            kept = fewer
    return search.outcome()


class _Search:
    """Recipes that were judged, and the best that holds."""

    def __init__(self, recipe: Recipe, judge: Callable[[Recipe], float], budget: float, end: float) -> None:
        self._recipe, self._judge, self._budget, self._end = recipe, judge, budget, end
        self._tried = list[tuple[int, float]]()
        self._best: tuple[Recipe, float] | None = None
        self._nearest: tuple[Recipe, float] | None = None

    @property
    def late(self) -> bool:
        return time.monotonic() > self._end

    def holds(self, kept: Collection[str]) -> bool:
        """Whether the budget holds with these layers in float."""
        recipe = replace(self._recipe, kept=self._recipe.kept | frozenset(kept))
        drop = self._judge(recipe)
        self._tried.append((len(recipe.kept), drop))
        if self._nearest is None or drop < self._nearest[1] or math.isnan(self._nearest[1]):
            self._nearest = recipe, drop
        met = drop <= self._budget
        if met and (self._best is None or len(recipe.kept) < len(self._best[0].kept)):
            self._best = recipe, drop
        return met

    def outcome(self) -> Mixed:
        recipe, drop = self._best or self._nearest or (self._recipe, math.nan)
        return Mixed(recipe, drop, self._best is not None, tuple(self._tried))

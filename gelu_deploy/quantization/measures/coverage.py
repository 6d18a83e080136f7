"""Which layers of a quantized model really run in integers: read from the graph that the runtime itself made of it.

A layer is found there by its weight, which fusions keep under its name, else by its output. It knows nothing of how the
model was quantized, and measures no time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.arrays import Arrays
from gelu_deploy.errors import ModelError
from gelu_deploy.graph.kernels import WIDENED
from gelu_deploy.graph.naming import Names
from gelu_deploy.graph.scopes import module_of
from gelu_deploy.quantization.measures.work import ATTENTION, CARRIES, constant, macs, shapes_in, shapes_of, sizes_of
from gelu_deploy.quantization.network import Layer
from gelu_deploy.quantization.network.layers import OPERATORS

INTEGER = {
    "QGemm", "QLinearConv", "QLinearMatMul", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul",
    "ConvInteger", "QAttention", "MatMulNBits",
}  # fmt: skip
"""Kernels of the runtime that multiply integers; a MatMulNBits only at accuracy level 4."""
FLOAT = {"Conv", "Gemm", "MatMul", "FusedConv", "FusedGemm", "FusedMatMul", "GemmFastGelu", *ATTENTION}
MULTIPLIES = INTEGER | FLOAT
OTHERS = {"Conv", "ConvTranspose", "Gemm", "MatMul", *ATTENTION}
"""What else is counted where it is no layer."""
QUANTIZED = INTEGER | {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
"""Operators that a float model has none of."""
QUANTIZED_SECOND = {"QGemm": 3, "QLinearConv": 3, "QLinearMatMul": 3}
"""Where the weight is, if it is not the second input."""
FOLLOWS = CARRIES | {"Add", "Mul"}
"""What may stand between that operator and the output of its layer."""
FELL_BACK = "dequantized first, then multiplied in float"
LEFT = "left in float"
NO_WEIGHT = "a product of two activations, which stays float"


@dataclass(frozen=True)
class Covered:
    """One layer, or another operator that multiplies, as the runtime computes it.

    Attributes:
        node: Name of its node in the model.
        name: What reports call it: its module, else its node.
        op: ``Conv``, ``Gemm``, ``MatMul``; also ``ConvTranspose`` and attention's if it is no layer.
        kernels: Operators that compute it; one, but for what fell back.
        integer: Whether it multiplies integers.
        macs: Multiply-accumulates for one element of the batch.
        reason: Why it is not integer, ``""`` if it is.
    """

    node: str
    name: str
    op: str
    kernels: tuple[str, ...]
    integer: bool
    macs: int
    reason: str


@dataclass(frozen=True)
class Coverage:
    """What of a model is integer.

    Attributes:
        layers: Every layer that was asked for, in that order.
        others: What else multiplies: mostly the products of two activations that attention is made of.
        sized: Whether all shapes are known. If not, MACs are those of one row of each layer, and others count none.
        graph: The graph that the runtime made.
    """

    layers: tuple[Covered, ...]
    others: tuple[Covered, ...]
    sized: bool
    graph: ir.Model

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that the runtime runs, in order."""
        return tuple(node.op_type for node in self.graph.graph)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers and others."""
        return sum(one.macs for one in (*self.layers, *self.others))

    @property
    def share(self) -> float:
        """Share of them that run in integers; 0 where there are none."""
        return sum(one.macs for one in (*self.layers, *self.others) if one.integer) / max(self.macs, 1)

    @property
    def fell_back(self) -> tuple[str, ...]:
        """Names of the layers that are quantized in the file and float in the runtime."""
        return tuple(one.name for one in self.layers if one.reason == FELL_BACK)


def coverage(model: ir.Model, layers: Sequence[Layer], feed: Arrays | None = None, provider: str = "cpu") -> Coverage:
    """Ask the runtime what it makes of a model.

    Args:
        model: A whole model, at most 2 GB.
        layers: Layers of the float network that it was made from.
        feed: Inputs to count on, for a model whose shapes depend on them; without, the shapes in the file must do.
        provider: As for :class:`runtime.Session`.

    Raises:
        UsageError, SetupError, ModelError: As for :func:`runtime.optimised` and, with a feed, :func:`runtime.evaluate`.
    """
    reading = _Reading(runtime.optimised(model, provider))
    nodes = {node.name: node for node in model.graph}
    made = {value.name: node for node in model.graph for value in node.outputs}
    written = [_multiplier(nodes.get(layer.node) or made.get(layer.output)) for layer in layers]
    own = {node for node in written if node is not None}
    others = [node for node in model.graph if node not in own and node.op_type in OTHERS]
    shapes, batch = shapes_of(model) if feed is None else shapes_in(model, feed, [*own, *others])
    work = [layer.macs for layer in layers]
    if feed is not None:
        work = [0 if node is None else macs(node, shapes, batch) for node in written]
    sized = all(work)
    if not sized:
        work, shapes = [_row(node) for node in written], {}
    return Coverage(
        tuple(reading.covered(layer, node, count) for layer, node, count in zip(layers, written, work, strict=True)),
        tuple(reading.other(node, macs(node, shapes, batch)) for node in others),
        sized,
        reading.model,
    )


def quantized(model: ir.Model) -> set[str]:
    """The operators of a model that no float model has; empty for a float one."""
    return {node.op_type for node in model.graph.all_nodes()} & QUANTIZED


def require(found: Coverage) -> None:
    """Raise ModelError where a layer that was quantized runs in float: that is slower than no quantization at all."""
    lost = found.fell_back
    if lost:
        named = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        raise ModelError(
            f"{len(lost)} of {len(found.layers)} layers are quantized in the file, but the runtime dequantizes their "
            f"weights at every call and multiplies in float: {named}. Such a model is slower than the float one. "
            "Write the layer as Gemm with a constant bias vector (a MatMul and an Add of two dimensions are fused too "
            "late for an integer kernel), or keep it in float."
        )


class _Reading:
    """The runtime's graph, with what multiplies by each of its initializers."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self._made = {value.name: node for node in model.graph for value in node.outputs}
        self._places = {node: place for place, node in enumerate(model.graph)}
        self._taken = set[ir.Node]()

    def covered(self, layer: Layer, written: ir.Node | None, count: int) -> Covered:
        node = self._by_weight(written) or self._by_output(layer.output)
        if node is None:  # fused under another name, which happens to float operators only
            return Covered(layer.node, layer.name, layer.op, (layer.op,), False, count, LEFT)
        self._taken.add(node)
        integer = _is_integer(node)
        weight = _weight(node)
        if not integer and weight is not None and _maker(weight) == "DequantizeLinear":
            kernels = (*(kind for value in node.inputs if (kind := _maker(value)) == "DequantizeLinear"), node.op_type)
            return Covered(layer.node, layer.name, layer.op, kernels, False, count, FELL_BACK)
        return Covered(layer.node, layer.name, layer.op, (node.op_type,), integer, count, "" if integer else LEFT)

    def other(self, written: ir.Node, count: int) -> Covered:
        node = self._by_output(written.outputs[0].name or "")
        kernel, integer = (written.op_type, False) if node is None else (node.op_type, _is_integer(node))
        reason = "" if integer else NO_WEIGHT if not any(map(constant, written.inputs[:2])) else LEFT
        name = module_of(written) or written.name or ""
        return Covered(written.name or "", name, written.op_type, (kernel,), integer, count, reason)

    def _by_weight(self, written: ir.Node | None) -> ir.Node | None:
        """The first operator in their order that multiplies by the same initializer and is no other layer's."""
        weight = None if written is None else constant(_weight(written))
        value = None if weight is None else self.model.graph.initializers.get(weight.name or "")
        readers = sorted(_readers(value), key=self._places.__getitem__)
        return next((node for node in readers if node not in self._taken), None)

    def _by_output(self, name: str) -> ir.Node | None:
        return _multiplier(self._made.get(name) or self._made.get(f"{WIDENED}{name}"))


def _multiplier(node: ir.Node | None) -> ir.Node | None:
    """The nearest operator that multiplies, from the one that makes a layer's output backwards."""
    queue = [] if node is None else [node]
    for one in queue:
        if one.op_type in MULTIPLIES:
            return one
        if one.op_type in FOLLOWS and len(queue) < 32:
            queue += [maker for value in one.inputs if value is not None and (maker := value.producer()) is not None]
    return None


def _weight(node: ir.Node) -> ir.Value | None:
    place = QUANTIZED_SECOND.get(node.op_type, 1)
    return node.inputs[place] if place < len(node.inputs) else None


def _readers(value: ir.Value | None) -> Iterator[ir.Node]:
    """What multiplies by an initializer."""
    for node in value.consumers() if value is not None else ():
        if node.op_type in MULTIPLIES:
            yield node
        elif node.op_type in CARRIES:
            yield from _readers(node.outputs[0])


def _maker(value: ir.Value | None) -> str:
    maker = None if value is None else value.producer()
    return "" if maker is None else maker.op_type


def _is_integer(node: ir.Node) -> bool:
    level = node.attributes.get_int("accuracy_level", 0)
    return node.op_type in INTEGER and (node.op_type != "MatMulNBits" or level == 4)


def _row(node: ir.Node | None) -> int:
    """MACs of one row of a layer: as many as its weight has elements."""
    return math.prod(sizes_of(constant(_weight(node)))) if node is not None else 0


def share(model: ir.Model, feed: Arrays, provider: str = "cpu") -> float:
    """Share of a finished model's multiplications that run in integers, whoever quantized it.

    NaN for a file whose own operators multiply integers already, as in the operator format of ONNX Runtime.

    Raises:
        UsageError, SetupError, ModelError: As for :func:`coverage`.
    """
    if any(node.op_type in INTEGER for node in model.graph.all_nodes()):
        return math.nan
    Names().apply(model)
    nodes = [node for node in model.graph if node.op_type in OPERATORS and constant(node.inputs[1]) is not None]
    return coverage(model, [_as_layer(node) for node in nodes], feed, provider).share


def _as_layer(node: ir.Node) -> Layer:
    """A layer of a finished model, of which only where it stands is known."""
    name, output = node.name or "", node.outputs[0].name or ""
    return Layer(name, node.op_type, module_of(node), "", "", "", output, 0, 0, after_gelu=False)

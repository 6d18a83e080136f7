"""Every quantized layer beside its float self: alone, on the float network's values, and within the integer model.

It computes, and judges nothing. Kernels are those of the integer model: a layer alone is that model's own nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.graph.taps import tapped
from gelu_deploy.quantization.network import Layer, Network, Recipe


@dataclass(frozen=True)
class Seen:
    """One layer on one batch.

    Attributes:
        layer: Which.
        input: What it reads in the float network.
        wanted: What it makes of it there.
        alone: What its integer self makes of the same input.
        within: What it makes in the integer model, of what reaches it there.
    """

    layer: Layer
    input: Array
    wanted: Array
    alone: Array
    within: Array


def unsaturated(recipe: Recipe) -> Recipe:
    """The same numbers in the kernel that adds exactly on every CPU: that of unsigned activations and weights.

    Signed weights saturate on CPUs without VNNI; what is true of the recipe elsewhere cannot be measured with them.
    """
    return replace(recipe, activation="u8", weight="u8")


def quantized(network: Network, model: ir.Model) -> tuple[Layer, ...]:
    """The layers of the network that ``model``, which was made of it, computes otherwise than in float."""
    made = _values(model)
    return tuple(layer for layer in network.layers if _changed(layer, made[layer.output]))


def side_by_side(
    network: Network, model: ir.Model, data: Iterable[Arrays], layers: Iterable[Layer] | None = None
) -> Iterator[list[Seen]]:
    """Batch by batch, in one pass: all of ``layers``, or all that are quantized; one batch is in memory at a time."""
    chosen = tuple(quantized(network, model) if layers is None else layers)
    if not chosen:
        return
    made = _values(model)
    shown = {layer.node: _end(made[layer.output]).name or "" for layer in chosen}
    copy, taps = tapped(model, shown.values())
    islands = _islands(network, model, chosen)
    values = [name for layer in chosen for name in (layer.input, layer.output)]
    with (
        network.showing(values, optimise=True) as float_run,
        runtime.Evaluation(copy, optimise=True) as whole_run,
        runtime.Evaluation(islands, optimise=True) as alone_run,
    ):
        for feeds in data:
            wanted, within = float_run(feeds) | feeds, whole_run(feeds)
            alone = alone_run({_entry(layer): wanted[layer.input] for layer in chosen})
            yield [
                Seen(
                    layer,
                    wanted[layer.input],
                    wanted[layer.output],
                    alone[_exit(layer)],
                    -within[taps[shown[layer.node]]],
                )
                for layer in chosen
            ]


def quantizer(layer: Layer, model: ir.Model) -> ir.Node | None:
    """The QuantizeLinear that reads what the layer reads, if there is one."""
    readers = [node for node, _ in _values(model)[layer.input].uses()]
    return next((node for node in readers if node.op_type == "QuantizeLinear"), None)


def _changed(layer: Layer, output: ir.Value) -> bool:
    maker = output.producer()
    if maker is not None and maker.op_type == "DequantizeLinear":  # the output itself is quantized
        return True
    makers = [value.producer() for value in maker.inputs[:2] if value is not None] if maker is not None else []
    dequantized = any(node is not None and node.op_type == "DequantizeLinear" for node in makers)
    return dequantized or maker is None or maker.op_type != layer.op


def _end(value: ir.Value) -> ir.Value:
    """Where a layer's output can be seen and its integer kernel stays: behind its own Q and DQ, if it has them."""
    for node, _ in value.uses():
        if node.op_type == "QuantizeLinear":
            for after, _ in node.outputs[0].uses():
                if after.op_type == "DequantizeLinear":
                    return after.outputs[0]
    return value


def _islands(network: Network, model: ir.Model, layers: Iterable[Layer]) -> ir.Model:
    """Copies of the nodes between each layer's input and its output, side by side in one graph, each with its input."""
    made, floats, copier = _values(model), _values(network.model), _Copier()
    inputs, outputs = list[ir.Value](), list[ir.Value]()
    for layer in layers:
        source = floats[layer.input]
        entry = ir.val(_entry(layer), type=source.type, shape=source.shape)
        end = copier.copied(_end(made[layer.output]), {layer.input: entry})
        end.name, end.type = _exit(layer), end.type or source.type
        inputs.append(entry)
        outputs.append(end)
    constants, domains = list(copier.constants.values()), dict(model.opset_imports)
    graph = ir.Graph(inputs, outputs, nodes=copier.nodes, initializers=constants, opset_imports=domains, name="islands")
    return ir.Model(graph, ir_version=model.ir_version)


class _Copier:
    """Copies what makes a value, back to values whose copies are given; constants are shared by all copies."""

    def __init__(self) -> None:
        self.nodes = list[ir.Node]()
        self.constants = dict[str | None, ir.Value]()

    def copied(self, value: ir.Value, copies: dict[str | None, ir.Value]) -> ir.Value:
        if value.name in copies:
            return copies[value.name]
        maker = value.producer()
        if maker is None:
            constant = ir.val(value.name, const_value=value.const_value, type=value.type, shape=value.shape)
            return self.constants.setdefault(value.name, constant)
        operands = [None if one is None else self.copied(one, copies) for one in maker.inputs]
        name, attributes = f"copy.{len(self.nodes)}", list(maker.attributes.values())
        node = ir.Node(maker.domain, maker.op_type, operands, attributes, num_outputs=len(maker.outputs), name=name)
        self.nodes.append(node)
        for place, (new, old) in enumerate(zip(node.outputs, maker.outputs, strict=True)):
            new.name, new.type, new.shape = f"{name}.{place}", old.type, old.shape
            copies[old.name] = new
        return copies[value.name]


def _entry(layer: Layer) -> str:
    return f"{layer.node}.in"


def _exit(layer: Layer) -> str:
    return f"{layer.node}.out"


def _values(model: ir.Model) -> dict[str | None, ir.Value]:
    found = {value.name: value for value in (*model.graph.inputs, *model.graph.initializers.values())}
    return found | {value.name: value for node in model.graph for value in node.outputs}

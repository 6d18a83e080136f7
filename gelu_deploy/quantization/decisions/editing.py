"""Changes to a copy of a float network: other constants for a node, nodes put before or after one.

It knows nothing of what the changes are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from gelu_deploy.arrays import Array
from gelu_deploy.graph import hollow, scopes
from gelu_deploy.quantization.network import Layer, Network

Judge = Callable[[Network], float]
"""How near the integer model of a changed network comes to the float network as it was, on data held out: SQNR in dB.

It measures ranges anew: what layers read may have other names.
"""


class Edit:
    """A copy of a network in the making; the network itself stays as it is.

    Attributes:
        network: What is copied.
        model: The copy's graph.
        layers: Its layers by node; replaced as they change.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.model = network.model.clone()
        self.layers = {layer.node: layer for layer in network.layers}
        self._held = dict(network.held.weights)
        self._nodes = {node.name: node for node in self.model.graph}
        self._names = {value.name for node in self.model.graph for value in node.outputs}
        self._names |= {value.name for value in self.model.graph.inputs} | {
            *self.model.graph.initializers,
            *self._nodes,
        }

    def node(self, name: str) -> ir.Node:
        """The copy's node of that name."""
        return self._nodes[name]

    def array(self, value: ir.Value | None) -> Array:
        """A constant of the copy."""
        assert value is not None
        tensor = self._held[value.name].const_value if value.name in self._held else value.const_value
        assert tensor is not None
        return np.asarray(tensor.numpy())

    def constants(self, values: Iterable[ir.Value | None]) -> list[Array] | None:
        """Those that are there, None where one of them is computed."""
        given = [value for value in values if value is not None]
        known = all(value.name in self._held or value.const_value is not None for value in given)
        return [self.array(value) for value in given] if known else None

    def constant(self, name: str, array: Array) -> ir.Value:
        """A new constant; large ones are held, as the network holds its own."""
        value = ir.val(self._free(name), const_value=ir.tensor(np.ascontiguousarray(array)))
        value.type, value.shape = ir.TensorType(ir.DataType.from_numpy(array.dtype)), ir.Shape(array.shape)
        if array.nbytes < hollow.LARGE:
            self.model.graph.register_initializer(value)
            return value
        assert value.name is not None
        self._held[value.name] = value
        outside = ir.val(value.name, type=value.type, shape=value.shape)
        self.model.graph.inputs.append(outside)
        return outside

    def give(self, node: ir.Node, place: int, array: Array, name: str) -> str:
        """Give ``node`` its own constant in that place; its name."""
        if place >= len(node.inputs):
            node.resize_inputs(place + 1)
        value = self.constant(name, array)
        node.replace_input_with(place, value)
        return value.name or ""

    def insert(self, place: ir.Node, op: str, *inputs: ir.Value, after: bool = False, **attributes: int) -> ir.Value:
        """A new node before (or ``after``) ``place``, of its module; what it makes, of its first output's type."""
        node = ir.node(op, list(inputs), attributes, name=self._free(f"{place.name}.{op.lower()}"))
        node.outputs[0].name, node.outputs[0].type = node.name, place.outputs[0].type
        if module := scopes.module_of(place):
            node.metadata_props[scopes.MODULE] = module
        (self.model.graph.insert_after if after else self.model.graph.insert_before)(place, node)
        return node.outputs[0]

    def change(self, layer: Layer, **words: str) -> None:
        """What is to be said of a layer from now on."""
        self.layers[layer.node] = replace(self.layers[layer.node], **words)  # type: ignore[arg-type]

    def done(self) -> Network:
        """The changed network, without the constants that nothing reads any more."""
        graph = self.model.graph
        for value in [value for value in graph.initializers.values() if not _read(value)]:
            del graph.initializers[value.name or ""]
        unread = {value.name for value in graph.inputs if value.name in self._held and not _read(value)}
        for value in [value for value in graph.inputs if value.name in unread]:
            graph.inputs.remove(value)
        held = hollow.Held({name: value for name, value in self._held.items() if name not in unread})
        return Network(self.model, held, tuple(self.layers.values()), list(self.network.notes))

    def _free(self, name: str) -> str:
        """``name``, or the like where it is taken."""
        taken, number = name, 1
        while taken in self._names:
            number += 1
            taken = f"{name}.{number}"
        self._names.add(taken)
        return taken


def _read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()

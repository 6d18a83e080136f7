"""A float network with its weights in 16 bits, and its layers computed in 16 bits where the runtime can.

Around each layer stand Casts, so that GELU, LayerNorm, Softmax and residuals stay in float32, as in PyTorch's autocast.
The CPU kernels of the runtime are float32: there it takes the Casts away at load, and what is gained is half the file.
It knows nothing of integers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from gelu_deploy import pipeline
from gelu_deploy.graph import hollow
from gelu_deploy.graph.scopes import same_module
from gelu_deploy.quantization.network import Network

HALF = ".half"
"""What follows the name of a value or weight in 16 bits."""


def half(network: Network) -> ir.Model:
    """The network with 16-bit layers and embeddings; one whose weights 16 bits cannot hold stays as it is.

    Args:
        network: Float network; it is not changed.

    Returns:
        A whole model with float32 inputs and outputs.

    Raises:
        ModelError: The checker refuses the result.
    """
    model = network.whole()
    names = {layer.node for layer in network.layers}
    writer = _Writer(model)
    for node in list(model.graph):
        if node.name in names:
            writer.layer(node)
        elif node.op_type == "Gather" and node.domain == "":
            writer.lookup(node)
    for value in list(writer.replaced):
        if not value.uses() and not value.is_graph_output() and value.name is not None:
            del model.graph.initializers[value.name]
    model.producer_name, model.producer_version = "gelu_deploy", None
    pipeline.check(model, "writing 16 bits")
    return model


class _Writer:
    """Turns one node after another into 16 bits; weights and values that several read are cast once."""

    def __init__(self, model: ir.Model) -> None:
        self._graph = model.graph
        self._made = dict[ir.Value, ir.Value | None]()

    @property
    def replaced(self) -> Iterator[ir.Value]:
        """Initializers that have a 16-bit copy."""
        return (value for value, made in self._made.items() if made is not None and value.is_initializer())

    def layer(self, node: ir.Node) -> None:
        """Cast what a Conv, Gemm or MatMul reads and makes."""
        inputs = [(place, value) for place, value in enumerate(node.inputs) if value is not None]
        if any(value.is_initializer() and self._weight(value) is None for _, value in inputs):
            return
        for place, value in inputs:
            node.replace_input_with(place, self._weight(value) if value.is_initializer() else self._cast(value, node))
        self._widen(node)

    def lookup(self, node: ir.Node) -> None:
        """Keep a large table of a Gather in 16 bits, and cast what is looked up."""
        table = node.inputs[0]
        if table is None or table.const_value is None or table.const_value.nbytes < hollow.LARGE:
            return
        made = self._weight(table) if table.is_initializer() and table.dtype == ir.DataType.FLOAT else None
        if made is not None:
            node.replace_input_with(0, made)
            self._widen(node)

    def _weight(self, value: ir.Value) -> ir.Value | None:
        """The 16-bit copy of an initializer, None where it has values beyond 65504."""
        if value not in self._made:
            assert value.const_value is not None
            with np.errstate(over="ignore"):
                array = value.const_value.numpy().astype(np.float16)
            name = f"{value.name}{HALF}"
            made = ir.val(name, const_value=ir.tensor(array, name=name)) if np.isfinite(array).all() else None
            if made is not None:
                self._graph.register_initializer(made)
            self._made[value] = made
        return self._made[value]

    def _cast(self, value: ir.Value, before: ir.Node) -> ir.Value:
        made = self._made.get(value)
        if made is None:
            made = ir.val(f"{value.name}{HALF}", ir.DataType.FLOAT16, value.shape)
            self._graph.insert_before(before, _casting(value, made, before))
            self._made[value] = made
        return made

    def _widen(self, node: ir.Node) -> None:
        """Give the output its old name and type behind a Cast."""
        out = node.outputs[0]
        wide = ir.val(out.name, ir.DataType.FLOAT, out.shape)
        out.replace_all_uses_with(wide, replace_graph_outputs=True)
        out.name, out.type = f"{out.name}.narrow", ir.TensorType(ir.DataType.FLOAT16)
        self._graph.insert_after(node, _casting(out, wide, node))


def _casting(value: ir.Value, made: ir.Value, of: ir.Node) -> ir.Node:
    assert made.dtype is not None
    node = ir.node("Cast", [value], {"to": made.dtype.value}, outputs=[made], name=f"{made.name}.cast")
    same_module(node, of)
    return node

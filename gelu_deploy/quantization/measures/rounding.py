"""The part of an INT8 model's error that its weights make: the model with them rounded, and everything else in float.

It knows the file alone, whoever wrote it, and measures nothing.
"""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from gelu_deploy import runtime
from gelu_deploy.graph import hollow
from gelu_deploy.graph.opening import open_graph
from gelu_deploy.quantization.measures.coverage import INTEGER
from gelu_deploy.quantization.measures.work import constant


def rounded_weights(file: Path, provider: str = "cpu") -> runtime.Evaluation | None:
    """An INT8 file with Q and DQ, ready to run with the weights that are in it and activations in float.

    Biases are those of the file, corrected where it has corrected ones. Every node runs as it is written: optimised,
    the runtime may multiply by the integers themselves in a MatMulNBits, which rounds activations again.

    Args:
        file: From :func:`gelu_deploy.quantize`, or from ONNX Runtime's own static quantizer.
        provider: As for :class:`runtime.Session`.

    Returns:
        None where the two errors cannot be told apart: no activation is rounded, or an operator does both at once, as
        for dynamic INT8.

    Raises:
        ModelError: It is no ONNX file, or the runtime refuses it.
        SetupError: The provider cannot be had.
    """
    opened = open_graph(str(file))
    if not freed(opened.model):
        return None
    return runtime.Evaluation(opened.model, hollow.arrays(opened.held), optimise=False, provider=provider)


def freed(model: ir.Model) -> bool:
    """Take every Q and DQ of an activation out of a model, in place; whether that could be done. If not, none is."""
    nodes = list(model.graph.all_nodes())
    rounding = [node for node in nodes if node.op_type == "QuantizeLinear" and constant(node.inputs[0]) is None]
    readers = [(node, reader) for node in rounding for reader in node.outputs[0].consumers()]
    plain = all(reader.op_type == "DequantizeLinear" for _, reader in readers)
    shown = any(node.outputs[0].is_graph_output() for node in rounding)
    if not rounding or not plain or shown or any(node.op_type in INTEGER for node in nodes):
        return False
    for node, reader in readers:
        same = ir.node("Identity", [node.inputs[0]], name=reader.name)
        assert reader.graph is not None
        ir.convenience.replace_nodes_and_values(reader.graph, reader, [reader], [same], reader.outputs, same.outputs)
    RemoveUnusedNodesPass()(model)
    return True

"""How much each operator multiplies: from the shapes in a graph, or from those of one run on given inputs.

It counts multiply-accumulates for one element of the batch, and knows nothing of integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.arrays import Arrays

Shapes = Mapping[str, tuple[int, ...]]
ATTENTION = {"Attention", "MultiHeadAttention"}
"""Operators that multiply queries by keys, and the result by values."""
CARRIES = {"DequantizeLinear", "QuantizeLinear", "Cast", "Transpose", "Reshape", "Identity"}
"""What may stand between a weight and the operator that multiplies by it."""


def shapes_of(model: ir.Model) -> tuple[Shapes, int]:
    """The shapes that a graph states, by value name, and its batch; a free first axis is taken for a batch of 1."""
    values = [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]
    stated = {value.name or "": value.shape for value in values if value.shape is not None}
    first = next((shape[0] for shape in stated.values() if len(shape)), None)
    found = dict[str, tuple[int, ...]]()
    for name, shape in stated.items():
        sizes = [1 if not isinstance(size, int) and size in (first, *shape[:1]) else size for size in shape]
        known = tuple(size for size in sizes if isinstance(size, int))
        if len(known) == len(sizes):
            found[name] = known
    return found, first if isinstance(first, int) else 1


def shapes_in(model: ir.Model, feed: Arrays, nodes: Iterable[ir.Node]) -> tuple[Shapes, int]:
    """The shapes of what these nodes read and make in one run on ``feed``, and its batch."""
    copy = model.clone()
    made = {value.name: value for node in copy.graph for value in node.outputs}
    own = {value.name for value in copy.graph.outputs}
    asked = [value.name for node in nodes for value in (*node.inputs, *node.outputs) if value is not None]
    copy.graph.outputs.extend(made[name] for name in dict.fromkeys(asked) if name in made and name not in own)
    answers = feed | runtime.evaluate(copy, feed, optimise=False)
    first = next(iter(feed.values()))
    return {name: array.shape for name, array in answers.items()}, first.shape[0] if first.ndim else 1


def macs(node: ir.Node, shapes: Shapes, batch: int) -> int:
    """Multiply-accumulates of a Conv, ConvTranspose, Gemm, MatMul or attention, whole or quantized; 0 if unknown."""
    first, second = (shapes.get(value.name or "", ()) if value is not None else () for value in node.inputs[:2])
    out = shapes.get(node.outputs[0].name or "", ())
    if not first or not out:
        return 0
    if node.op_type in ATTENTION:
        length = second[-2] if len(second) > 1 else 0
        return (math.prod(first) + math.prod(out)) * length // batch
    if node.op_type.startswith("Conv"):
        weight = sizes_of(constant(node.inputs[1]))
        each = first if node.op_type == "ConvTranspose" else out
        return math.prod(each) * math.prod(weight[1:]) // batch if weight else 0
    inner = first[0] if node.op_type == "Gemm" and node.attributes.get_int("transA", 0) == 1 else first[-1]
    return math.prod(out) * inner // batch


def constant(value: ir.Value | None) -> ir.Value | None:
    """The initializer that a weight is, or is made of."""
    while value is not None and (maker := value.producer()) is not None:
        value = maker.inputs[0] if maker.op_type in CARRIES else None
    return value if value is not None and value.is_initializer() else None


def sizes_of(weight: ir.Value | None) -> tuple[int, ...]:
    """The shape of a constant."""
    tensor = None if weight is None else weight.const_value
    return () if tensor is None else tuple(tensor.shape.numpy())

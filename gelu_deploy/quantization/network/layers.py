"""The layers of a network made ready: every operator with a constant weight, and how much it multiplies.

It changes nothing, and knows nothing of quantization but what may take part in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from gelu_deploy.arrays import Arrays
from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.graph.gemm import POINTWISE
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.scopes import module_of
from gelu_deploy.quantization.network import Layer, Network

OPERATORS = ("Conv", "Gemm", "MatMul")
"""Operators that have an integer kernel; all take the weight second."""
Size = int | ir.SymbolicDim
CARRIERS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Split", "Slice"}
"""Operators that hand on what they read."""


def layers(model: ir.Model) -> tuple[tuple[Layer, ...], list[str]]:
    """The layers of the main graph, in its order, and a note for each operator that is none though its weight is known.

    Args:
        model: A whole model with names and shapes.
    """
    found, notes = list[Layer](), _hidden(model)
    gelus = {site.output for site in find(model).sites}
    shapes = [value.shape for value in model.graph.inputs if value.shape is not None and len(value.shape)]
    batch = {shape[0] for shape in shapes if not shape.is_unknown_dim(0)}
    for node in model.graph:
        tensor = _weight(node)
        if tensor is None:
            continue
        why = _unfit(node, tensor)
        if why:
            notes.append(f"{module_of(node) or node.name} stays float: {why}")
        else:
            found.append(_layer(node, tensor, batch, gelus))
    return tuple(found), notes


def measured(network: Network, inputs: Arrays) -> tuple[Layer, ...]:
    """The layers of a network, their multiply-accumulates counted in a run with these inputs.

    That is exact where the graph leaves sizes open, as for images of any size.

    Args:
        network: Made ready.
        inputs: One batch, along the first axis of the first input.

    Raises:
        UsageError, ModelError, LimitError: As for :class:`runtime.Evaluation`.
    """
    with network.showing([layer.output for layer in network.layers]) as run:
        made = run(inputs)
    first = next(iter(inputs.values()))
    batch = len(first) if first.ndim else 1
    counts = (made[layer.output].size * _vector(layer, network.array(layer.weight).shape) for layer in network.layers)
    return tuple(replace(layer, macs=count // batch) for layer, count in zip(network.layers, counts, strict=True))


def _vector(layer: Layer, sizes: Sequence[int]) -> int:
    """Products in one element of the output."""
    return math.prod(size for axis, size in enumerate(sizes) if axis != layer.axis)


def _weight(node: ir.Node) -> ir.TensorProtocol | None:
    """The constant weight of an operator that has an integer kernel and reads something that is computed."""
    if node.op_type not in OPERATORS or node.domain:
        return None
    x, weight = node.inputs[:2]
    return None if x is None or weight is None or tensor_of(x) is not None else tensor_of(weight)


def _hidden(model: ir.Model) -> list[str]:
    """A note on layers that are in the body of an If or a Loop."""
    count = sum(_weight(node) is not None for node in model.graph.all_nodes() if node.graph is not model.graph)
    return [f"layers inside If, Loop or Scan stay float ({count})"] if count else []


def _layer(node: ir.Node, tensor: ir.TensorProtocol, batch: set[Size], gelus: set[ir.Value]) -> Layer:
    x, weight, bias = [*node.inputs, None][:3]
    assert x is not None
    assert weight is not None
    first = node.op_type == "Conv" or bool(node.attributes.get_int("transB", 0))
    return Layer(
        node=node.name or "",
        op=node.op_type,
        module=module_of(node),
        input=x.name or "",
        weight=weight.name or "",
        bias="" if bias is None else bias.name or "",
        output=node.outputs[0].name or "",
        axis=0 if first else 1,
        macs=_macs(node, x, tensor, batch),
        after_gelu=_is_after(x, gelus),
    )


def _unfit(node: ir.Node, weight: ir.TensorProtocol) -> str:
    """Why an operator with this weight cannot be quantized, ``""`` if it can."""
    if weight.dtype != ir.DataType.FLOAT:
        return f"its weight is {weight.dtype.name.lower()}, integer kernels replace float32 ones alone"
    if node.op_type != "Conv" and len(weight.shape) != 2:
        return f"its weight has {len(weight.shape)} axes, integer kernels take a matrix"
    if not np.isfinite(weight.numpy()).all():
        return "its weight is not finite"
    if node.op_type == "Gemm":
        return _unusual(node)
    return ""


def _unusual(gemm: ir.Node) -> str:
    """What of a Gemm ONNX Runtime's quantizer does not know, ``""`` if nothing."""
    if gemm.attributes.get_int("transA", 0):
        return "its input is transposed"
    bias = gemm.inputs[2] if len(gemm.inputs) > 2 else None
    tensor = None if bias is None else tensor_of(bias)
    if bias is not None and (tensor is None or len(tensor.shape) != 1):
        return "what it adds is no constant vector"
    if bias is not None and gemm.attributes.get_float("beta", 1.0) != 1.0:
        return "it scales its bias"
    if tensor is not None and not np.isfinite(tensor.numpy()).all():
        return "its bias is not finite"
    return ""


def _macs(node: ir.Node, x: ir.Value, weight: ir.TensorProtocol, batch: set[Size]) -> int:
    """For one element of the batch; 0 where a size is not known."""
    shape, sizes = node.outputs[0].shape, weight.shape.numpy()
    if shape is None or not len(shape):
        return 0
    if node.op_type == "Conv":
        return _product(list(shape)[1:], batch) * math.prod(sizes[1:])
    return _rows(x, batch) * math.prod(sizes)


def _rows(x: ir.Value, batch: set[Size]) -> int:
    """How many vectors of ``x`` belong to one element of the batch; of two dimensions, the Reshape in front knows."""
    if x.shape is None:
        return 0
    if len(x.shape) > 2:
        return _product(list(x.shape)[1:-1], batch)
    maker = x.producer()
    source = maker.inputs[0] if maker is not None and maker.inputs else None
    if maker is None or source is None or source.shape is None:
        return 1
    width = x.shape[-1]
    if maker.op_type == "Reshape" and len(source.shape) > 2 and isinstance(width, int):
        return _product(list(source.shape)[1:], batch) // width
    return _rows(source, batch) if maker.op_type in POINTWISE or maker.op_type in OPERATORS else 1


def _product(sizes: list[Size], batch: set[Size]) -> int:
    """The product of known sizes, where the batch itself, which a transposed value has elsewhere, counts once."""
    known = [1 if not isinstance(size, int) and size in batch else size for size in sizes]
    return math.prod(size for size in known if isinstance(size, int)) if all(isinstance(s, int) for s in known) else 0


def _is_after(x: ir.Value, gelus: set[ir.Value]) -> bool:
    """Whether ``x`` is a GELU's output, maybe reshaped, cut or scaled."""
    value: ir.Value | None = x
    while value is not None and value not in gelus:
        maker = value.producer()
        if maker is None or maker.domain:
            return False
        if maker.op_type in {"Mul", "Div"}:
            value = _scaled(maker)
        elif maker.op_type in CARRIERS:
            value = maker.inputs[0]
        else:
            return False
    return value is not None


def _scaled(node: ir.Node) -> ir.Value | None:
    """What is multiplied by a constant or divided by one."""
    computed = [value for value in node.inputs if value is not None and tensor_of(value) is None]
    divides = node.op_type == "Div" and computed[0] is not node.inputs[0]
    return None if len(computed) != 1 or divides else computed[0]

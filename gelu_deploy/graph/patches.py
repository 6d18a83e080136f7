"""Convolutions that cut their input into patches, as the matrix product that they are.

Where a kernel steps by its own size, with nothing around the input, no number is read twice: the patches in rows,
times the kernels in columns. ONNX Runtime's integer product answers in float, which none of its integer convolutions
does. It works on whole models, and knows nothing of quantization.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from gelu_deploy.arrays import Array
from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.graph.passes import Result
from gelu_deploy.graph.scopes import same_module

Size = int | ir.SymbolicDim


@dataclass(frozen=True)
class Patches:
    """Every such ``Conv`` becomes ``Reshape``, ``Transpose``, ``MatMul``, ``Add`` and ``Transpose``, in place.

    Its weight and bias are constants, and the input's sizes are known, up to the batch, and whole numbers of patches.
    A kernel of one pixel cuts nothing and stays.
    """

    def apply(self, model: ir.Model) -> Result:
        """Works on the main graph of a whole model with shapes, its constants initializers that no caller replaces."""
        found = [node for node in model.graph if _cuts(node)]
        for node in found:
            _write(model.graph, node)
        if found:
            RemoveUnusedNodesPass()(model)
        notes = (f"{len(found)} Conv that cut patches written as MatMul",) if found else ()
        return Result(model, modified=bool(found), notes=notes)


def _cuts(node: ir.Node) -> bool:
    if node.op_type != "Conv" or node.domain:
        return False
    x, weight, bias = [*node.inputs, None][:3]
    kernels = None if weight is None else tensor_of(weight)
    if x is None or x.shape is None or kernels is None or (bias is not None and tensor_of(bias) is None):
        return False
    patch, attributes = kernels.shape.numpy()[2:], node.attributes
    whole = all(isinstance(size, int) and size % step == 0 for size, step in zip(x.shape[2:], patch, strict=True))
    return (
        whole
        and prod(patch) > 1
        and tuple(attributes.get_ints("strides", [])) == tuple(patch)
        and attributes.get_int("group", 1) == 1
        and not any(attributes.get_ints("pads", []))
        and set(attributes.get_ints("dilations", [])) <= {1}
        and kernels.dtype.is_floating_point()
    )


def _write(graph: ir.Graph, conv: ir.Node) -> None:
    """[N, C, H, W] to [N, H/p, W/p, C·p·p], times [C·p·p, M], to [N, M, H/p, W/p]; or of any number of axes."""
    x, weight, bias = [*conv.inputs, None][:3]
    output = conv.outputs[0]
    assert x is not None
    assert x.shape is not None
    assert weight is not None
    tensor = tensor_of(weight)
    assert tensor is not None
    kernels, batch = tensor.numpy(), x.shape[0]
    (made, channels, *patch), sizes = kernels.shape, [size for size in x.shape[2:] if isinstance(size, int)]
    axes, width = len(patch), channels * prod(patch)
    grid = [size // step for size, step in zip(sizes, patch, strict=True)]
    writer = _Writer(graph, conv)
    cut = [side for pair in zip(grid, patch, strict=True) for side in pair]
    split = writer.add("Reshape", [x, writer.integers([0, channels, *cut])], "split", [batch, channels, *cut])
    order = [0, *range(2, 2 * axes + 2, 2), 1, *range(3, 2 * axes + 3, 2)]
    together = writer.transpose(split, order, "together")
    rows = writer.add("Reshape", [together, writer.integers([0, *grid, width])], "patches", [batch, *grid, width])
    matrix = np.ascontiguousarray(kernels.reshape(made, width).T)
    result = writer.add("MatMul", [rows, writer.constant("matrix", matrix)], "product", [batch, *grid, made])
    if bias is not None:
        result = writer.add("Add", [result, bias], "last", [batch, *grid, made])
    first = writer.transpose(result, [0, axes + 1, *range(1, axes + 1)], "first")
    output.replace_all_uses_with(first, replace_graph_outputs=True)
    first.name, output.name = output.name, f"{output.name}.replaced"
    first.type = output.type
    graph.remove(conv, safe=True)


class _Writer:
    """Puts operators before one node, of its module and under names that begin with what it makes."""

    def __init__(self, graph: ir.Graph, before: ir.Node) -> None:
        self._graph, self._before = graph, before
        self._taken = {value.name for node in graph.all_nodes() for value in (*node.inputs, *node.outputs) if value}

    def add(
        self, op: str, inputs: Sequence[ir.Value], what: str, shape: Sequence[Size], perm: Sequence[int] = ()
    ) -> ir.Value:
        """The result of a new operator."""
        made = ir.val(self._name(what), self._before.outputs[0].dtype, ir.Shape(shape))
        attributes = [ir.AttrInt64s("perm", perm)] if perm else []
        node = ir.Node("", op, inputs, attributes, outputs=[made], name=made.name)
        same_module(node, self._before)
        self._graph.insert_before(self._before, node)
        return made

    def transpose(self, x: ir.Value, perm: Sequence[int], what: str) -> ir.Value:
        """``x`` with its axes in another order."""
        assert x.shape is not None
        return self.add("Transpose", [x], what, [x.shape[axis] for axis in perm], perm)

    def integers(self, numbers: Sequence[int]) -> ir.Value:
        """A constant shape."""
        return self.constant(".".join(map(str, numbers)), np.array(numbers, np.int64))

    def constant(self, what: str, array: Array) -> ir.Value:
        """A new initializer."""
        value = ir.val(self._name(what), const_value=ir.tensor(array))
        self._graph.register_initializer(value)
        return value

    def _name(self, what: str) -> str:
        name = f"{self._before.outputs[0].name}.{what}"
        while name in self._taken:
            name += ".new"
        self._taken.add(name)
        return name

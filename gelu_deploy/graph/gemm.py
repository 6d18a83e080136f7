"""Linear layers as the runtime's integer kernels want them: a ``MatMul`` and an ``Add`` of constants become a ``Gemm``.

A ``Gemm`` has two dimensions, so one of more axes stands between two Reshapes; what works element by element between
two of those does it in two dimensions too, and the Reshapes between them are gone. It works on whole models, and knows
nothing of quantization.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.graph.passes import Result
from gelu_deploy.graph.scopes import same_module

POINTWISE = {"Add", "Sub", "Mul", "Div", "Gelu", "Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu"}
"""Operators that compute the same in two dimensions."""
FLAT = ".flat"
"""What follows the name of a value that is made in two dimensions; one of its own name only where others read it."""


@dataclass(frozen=True)
class Gemms:
    """Every ``MatMul`` with a constant matrix whose only reader adds a constant row becomes a ``Gemm``, in place.

    A ``MatMul`` to which nothing is added stays: the runtime multiplies it in integers as it is. A bias of shape [1, N]
    becomes [N], the only one that ONNX Runtime's quantizer takes.
    """

    def apply(self, model: ir.Model) -> Result:
        """Works on the main graph of a whole model with shapes, its constants initializers that no caller replaces."""
        writer = _Writer(model.graph)
        for node in list(model.graph):
            if node.domain == "":
                writer.visit(node)
        if writer.modified:
            RemoveUnusedNodesPass()(model)
        notes = (f"{writer.gemms} MatMul with Add written as Gemm",) if writer.gemms else ()
        return Result(model, modified=writer.modified, notes=notes)


@dataclass(frozen=True)
class _Flat:
    """A value in two dimensions, and one whose axes before the last are those that it lost."""

    value: ir.Value
    like: ir.Value


class _Writer:
    """Writes new operators into one graph, node by node in its order."""

    def __init__(self, graph: ir.Graph) -> None:
        self.gemms = 0
        self.modified = False
        self._graph = graph
        self._names = {value.name for value in (*graph.inputs, *graph.initializers.values())}
        self._names |= {value.name for node in graph.all_nodes() for value in node.outputs}
        self._flat: dict[ir.Value, _Flat] = {}
        self._sizes: dict[tuple[ir.Value, int], ir.Value] = {}

    def visit(self, node: ir.Node) -> None:
        if node.op_type == "MatMul":
            self._linear(node)
        elif node.op_type == "Gemm":
            self._straighten(node)
        elif node.op_type == "Reshape":
            self._reshape(node)
        elif node.op_type in POINTWISE:
            self._lower(node)

    def _linear(self, product: ir.Node) -> None:
        x, weight = product.inputs
        matrix = _tensor(weight)
        if x is None or x.shape is None or len(x.shape) < 2:
            return
        if weight is None or matrix is None or len(matrix.shape) != 2 or not matrix.dtype.is_floating_point():
            return
        rows, columns = matrix.shape.numpy()
        found = _added(product, len(x.shape), columns)
        if found is None or _width(found[0].outputs[0]) != columns:
            return
        add, bias = found
        flat = _Flat(x, x) if len(x.shape) == 2 else self._flattened(product, x, rows)
        self._write(add, "Gemm", [flat.value, weight, self._row(bias, columns)], flat.like)
        self._graph.remove(product, safe=True)
        self.gemms += 1

    def _straighten(self, gemm: ir.Node) -> None:
        bias, width = gemm.inputs[2] if len(gemm.inputs) > 2 else None, _width(gemm.outputs[0])
        tensor = _tensor(bias)
        if bias is not None and tensor is not None and _is_row(tensor, width) and len(tensor.shape) != 1:
            gemm.replace_input_with(2, self._row(bias, width))
            self.modified = True

    def _reshape(self, node: ir.Node) -> None:
        """One out of two dimensions is remembered; after such a one, or one of ours, another needs no first."""
        x, y = node.inputs[0], node.outputs[0]
        if x is None or x.shape is None or y.shape is None:
            return
        same = _width(x) == _width(y) > 0
        if same and len(x.shape) == 2 < len(y.shape):
            self._flat[y] = _Flat(x, y)
        elif same and len(y.shape) == 2 and x in self._flat and not y.is_graph_output():
            y.replace_all_uses_with(self._flat[x].value)
            self.modified = True
        elif x in self._flat and not _copies_sizes(node):
            node.replace_input_with(0, self._flat[x].value)
            self.modified = True

    def _lower(self, node: ir.Node) -> None:
        """An operator that reads values of one origin in two dimensions, and constant rows, works on those."""
        width = _width(node.outputs[0])
        inputs, origins = list[ir.Value](), set[ir.Value]()
        for value in node.inputs:
            tensor = _tensor(value)
            if value in self._flat:
                inputs.append(self._flat[value].value)
                origins.add(self._flat[value].like)
            elif value is None or tensor is None or not _is_row(tensor, width):
                return
            else:
                inputs.append(value if len(tensor.shape) <= 1 else self._row(value, width))
        if len(origins) == 1 and width:
            self._write(node, node.op_type, inputs, origins.pop(), node.attributes.values())

    def _flattened(self, before: ir.Node, x: ir.Value, width: int) -> _Flat:
        """``x`` in two dimensions, by a Reshape unless there is one already."""
        if x not in self._flat:
            maker, rows = x.producer(), ir.val(f"{x.name}.rows", x.dtype, [None, width])
            source = maker.inputs[0] if maker is not None and maker.op_type == "Reshape" and not maker.domain else x
            assert source is not None
            self._add(before, "Reshape", [source, self._integers([-1, width])], rows)
            self._flat[x] = _Flat(rows, x)
        return self._flat[x]

    def _write(
        self, old: ir.Node, op: str, inputs: Sequence[ir.Value], like: ir.Value, attributes: Iterable[ir.Attr] = ()
    ) -> None:
        """Put an operator of two dimensions in the place of ``old``, and its result back into the old shape."""
        output = old.outputs[0]
        assert output.shape is not None
        width, name = _width(output), output.name or ""
        if len(output.shape) == 2:
            result = self._add(old, op, inputs, ir.val(f"{name}.gemm", output.dtype, output.shape), attributes)
        else:
            made = self._add(old, op, inputs, ir.val(f"{name}{FLAT}", output.dtype, [None, width]), attributes)
            result = ir.val(f"{name}.back", output.dtype, output.shape)
            self._add(old, "Reshape", [made, self._shape(old, like, width)], result)
            self._flat[result] = _Flat(made, like)
        output.replace_all_uses_with(result, replace_graph_outputs=True)
        output.name, result.name = f"{name}.replaced", name
        result.type = output.type
        self._graph.remove(old, safe=True)
        self.modified = True

    def _shape(self, before: ir.Node, like: ir.Value, width: int) -> ir.Value:
        """The axes of ``like`` but the last, and ``width``: a constant where at most one of them is free."""
        assert like.shape is not None
        leading = [size if isinstance(size, int) else -1 for size in like.shape[:-1]]
        if leading.count(-1) <= 1 and 0 not in leading:
            return self._integers([*leading, width])
        if (like, width) not in self._sizes:
            axes = ir.val(f"{like.name}.axes.{width}", ir.DataType.INT64, [len(leading)])
            self._add(before, "Shape", [like], axes, [ir.AttrInt64("start", 0), ir.AttrInt64("end", -1)])
            sizes = ir.val(f"{like.name}.sizes.{width}", ir.DataType.INT64, [len(leading) + 1])
            self._add(before, "Concat", [axes, self._integers([width])], sizes, [ir.AttrInt64("axis", 0)])
            self._sizes[like, width] = sizes
        return self._sizes[like, width]

    def _add(
        self,
        before: ir.Node,
        op: str,
        inputs: Sequence[ir.Value],
        made: ir.Value,
        attributes: Iterable[ir.Attr] = (),
    ) -> ir.Value:
        """Let a new operator in front of ``before``, and of its module, make a value under a name that is free."""
        while made.name in self._names:
            made.name = f"{made.name}.new"
        self._names.add(made.name)
        node = ir.Node("", op, inputs, attributes, outputs=[made], name=made.name)
        same_module(node, before)
        self._graph.insert_before(before, node)
        return made

    def _row(self, bias: ir.Value, width: int) -> ir.Value:
        """The constant as a vector of ``width``."""
        tensor = _tensor(bias)
        assert tensor is not None
        if tuple(tensor.shape.numpy()) == (width,):
            return bias
        row = np.broadcast_to(tensor.numpy().reshape(-1), (width,)).copy()
        return self._initializer(f"{bias.name}.row.{width}", ir.Tensor(row, tensor.dtype))

    def _integers(self, numbers: list[int]) -> ir.Value:
        name = "gelu_deploy.shape." + ".".join(map(str, numbers))
        return self._initializer(name, ir.tensor(np.array(numbers, np.int64)))

    def _initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        if name not in self._graph.initializers:
            tensor.name = name
            self._graph.register_initializer(ir.val(name, const_value=tensor))
        return self._graph.initializers[name]


def _tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    return None if value is None else tensor_of(value)


def _added(product: ir.Node, rank: int, width: int) -> tuple[ir.Node, ir.Value] | None:
    """The ``Add`` that alone reads the product, and the constant row that it adds."""
    output = product.outputs[0]
    uses = list(output.uses())
    if len(uses) != 1 or output.is_graph_output():
        return None
    add, place = uses[0]
    if add.op_type != "Add" or add.domain or add.graph is not product.graph:
        return None
    bias = add.inputs[1 - place]
    tensor = _tensor(bias)
    if bias is None or tensor is None or len(tensor.shape) > rank or not _is_row(tensor, width):
        return None
    return add, bias


def _is_row(tensor: ir.TensorProtocol, width: int) -> bool:
    """Whether adding it to [..., ``width``] adds one vector everywhere."""
    return tensor.size == 1 or (tensor.size == width and tensor.shape.numpy()[-1] == width)


def _width(value: ir.Value) -> int:
    """Size of the last axis, 0 where it is not known."""
    last = value.shape[-1] if value.shape is not None and len(value.shape) else None
    return last if isinstance(last, int) else 0


def _copies_sizes(reshape: ir.Node) -> bool:
    """Whether a 0 in the shape that it makes may stand for a size of its input."""
    shape = _tensor(reshape.inputs[1])
    return not reshape.attributes.get_int("allowzero", 0) and (shape is None or not shape.numpy().all())

"""Graphs written as formulas: ``model(lambda x: x * (1 + erf(x / R2)) * 0.5)``.

Each operator of the formula becomes one node, with its operands in the order in which they are written; numbers become
constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

Number = int | float | np.ndarray[Any, Any]
Home = Literal["initializer", "constant", "overridable"]


@dataclass
class Writer:
    """Nodes and constants of one graph in the making.

    Attributes:
        dtype: Type of the input and of every constant that is a plain number.
        home: Where constants live: initializers, Constant nodes, or initializers that are graph inputs too.
        rank: Rank that constants are given.
    """

    dtype: ir.DataType = ir.DataType.FLOAT
    home: Home = "initializer"
    rank: int = 0
    nodes: list[ir.Node] = field(default_factory=list)
    constants: list[ir.Value] = field(default_factory=list)

    def op(self, op: str, *inputs: Expression | Number, domain: str = "", **attributes: Any) -> Expression:
        """One node."""
        values = [item.value if isinstance(item, Expression) else self.constant(item) for item in inputs]
        node = ir.node(op, values, attributes, domain=domain, name=f"{op}_{len(self.nodes)}")
        node.outputs[0].name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(node)
        return Expression(node.outputs[0], self)

    def constant(self, number: Number) -> ir.Value:
        """A number of this graph's type, or an array as it is."""
        array = number if isinstance(number, np.ndarray) else np.full((1,) * self.rank, number, self.dtype.numpy())
        tensor = ir.tensor(array, name=f"c{len(self.constants) + len(self.nodes)}")
        if self.home == "constant":
            return self.op("Constant", value=tensor).value
        value = ir.val(f"c{len(self.constants) + len(self.nodes)}", const_value=tensor)
        self.constants.append(value)
        return value


@dataclass(frozen=True)
class Expression:
    """A value that arithmetic can be done with."""

    value: ir.Value
    writer: Writer

    __array_ufunc__ = None  # an array on the left leaves the operator to us

    def __add__(self, other: Expression | Number) -> Expression:
        return self.writer.op("Add", self, other)

    def __radd__(self, other: Number) -> Expression:
        return self.writer.op("Add", other, self)

    def __sub__(self, other: Expression | Number) -> Expression:
        return self.writer.op("Sub", self, other)

    def __rsub__(self, other: Number) -> Expression:
        return self.writer.op("Sub", other, self)

    def __mul__(self, other: Expression | Number) -> Expression:
        return self.writer.op("Mul", self, other)

    def __rmul__(self, other: Number) -> Expression:
        return self.writer.op("Mul", other, self)

    def __truediv__(self, other: Expression | Number) -> Expression:
        return self.writer.op("Div", self, other)

    def __rtruediv__(self, other: Number) -> Expression:
        return self.writer.op("Div", other, self)

    def __pow__(self, other: Expression | Number) -> Expression:
        return self.writer.op("Pow", self, other)

    def __neg__(self) -> Expression:
        return self.writer.op("Neg", self)


def op(name: str, *inputs: Expression | Number, domain: str = "", **attributes: Any) -> Expression:
    """Any operator, written where its first expression is."""
    writer = next(item.writer for item in inputs if isinstance(item, Expression))
    return writer.op(name, *inputs, domain=domain, **attributes)


def erf(x: Expression) -> Expression:
    return op("Erf", x)


def tanh(x: Expression) -> Expression:
    return op("Tanh", x)


def sigmoid(x: Expression) -> Expression:
    return op("Sigmoid", x)


def exp(x: Expression) -> Expression:
    return op("Exp", x)


Formula = Callable[[Expression], Expression]


def model(
    formula: Formula,
    *,
    shape: Sequence[int | str] = ("n", 4, 8),
    dtype: ir.DataType = ir.DataType.FLOAT,
    home: Home = "initializer",
    rank: int = 0,
    opset: int = 20,
    expose: bool = False,
) -> ir.Model:
    """The model ``y = formula(x)``, valid and with shapes.

    Args:
        formula: What to write.
        shape: Of ``x``.
        dtype: Of ``x`` and of the constants.
        home: Where constants live.
        rank: Of the constants.
        opset: Of the default domain.
        expose: Whether every inner value is a graph output too.
    """
    from onnx_ir.passes.common import ShapeInferencePass

    writer = Writer(dtype, home, rank)
    x = ir.val("x", dtype, shape)
    y = formula(Expression(x, writer)).value
    y.name, y.type = "y", ir.TensorType(dtype)
    if any(node.domain for node in writer.nodes):
        y.shape = ir.Shape(shape)  # shape inference knows no contrib operator
    inner = [node.outputs[0] for node in writer.nodes if node.op_type not in {"Constant", "Shape"}] if expose else []
    outputs = [y, *(value for value in inner if value is not y)]
    for value in outputs:
        value.type = value.type or ir.TensorType(dtype)
    inputs = [x, *(writer.constants if home == "overridable" else [])]
    graph = ir.Graph(
        inputs, outputs, nodes=writer.nodes, initializers=writer.constants, opset_imports={"": opset}, name="g"
    )
    if any(node.domain for node in writer.nodes):
        graph.opset_imports["com.microsoft"] = 1
    made = ir.Model(graph, ir_version=10)
    return ShapeInferencePass()(made).model

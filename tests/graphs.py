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
Place = Literal["main", "function", "nested", "if", "loop"]


def model(
    formula: Formula,
    *,
    shape: Sequence[int | str] = ("n", 4, 8),
    dtype: ir.DataType = ir.DataType.FLOAT,
    home: Home = "initializer",
    rank: int = 0,
    opset: int = 20,
    expose: bool = False,
    place: Place = "main",
) -> ir.Model:
    """The model ``y = formula(x)``, valid and with shapes.

    Args:
        formula: What to write.
        shape: Of ``x``.
        dtype: Of ``x`` and of the constants.
        home: Where constants live; as arguments they are initializers that a function is called with.
        rank: Of the constants.
        opset: Of the default domain.
        expose: Whether every inner value is a graph output too.
        place: Whether the formula stands in the main graph, in a function (called by a function), or in a body.
    """
    from onnx_ir.passes.common import ShapeInferencePass

    writer = Writer(dtype, home, rank)
    x = ir.val("x", dtype, shape)
    inner = x if place == "if" else ir.val("inner.x", dtype, shape) if place != "main" else x
    y = formula(Expression(inner, writer)).value
    kinds = {node.domain for node in writer.nodes if node.domain}
    y.type = ir.TensorType(dtype)
    imports = {"": opset, **dict.fromkeys(kinds, 1)}
    functions, nodes, outer = _placed(place, writer, inner, x, y, imports)
    result = outer.outputs[-1] if outer is not None else y
    result.name, result.type = "y", ir.TensorType(dtype)
    exposed = [n.outputs[0] for n in writer.nodes if n.op_type not in {"Constant", "Shape"}] if expose else []
    outputs = [result, *(value for value in exposed if value is not result)]
    for value in outputs:
        value.type = value.type or ir.TensorType(dtype)
    inputs = [x, *(writer.constants if home == "overridable" else [])]
    graph = ir.Graph(inputs, outputs, nodes=nodes, initializers=writer.constants, opset_imports=dict(imports), name="g")
    graph.opset_imports.update({"test": 1} if functions else {})
    made = ShapeInferencePass()(ir.Model(graph, ir_version=8 if opset <= 17 else 10, functions=functions)).model
    for value in made.graph.outputs:
        if value.shape is None:  # inference does not see through contrib operators, functions and loops
            value.shape = ir.Shape(shape)
    return made


def _placed(
    place: Place, writer: Writer, inner: ir.Value, x: ir.Value, y: ir.Value, imports: dict[str, int]
) -> tuple[list[ir.Function], list[ir.Node], ir.Node | None]:
    """Functions, main nodes, and the main node that stands for the formula where it is not in the main graph."""
    if place == "main":
        return [], writer.nodes, None
    if place in {"function", "nested"}:
        return _functions(place, writer, inner, x, y, imports)
    y.name, y.shape = "inner.y", x.shape  # the outputs of a body must have shapes
    if place == "if":
        other = ir.node("Identity", [x], name="other")
        other.outputs[0].name, other.outputs[0].type, other.outputs[0].shape = "other", y.type, x.shape
        always = ir.node("Constant", [], {"value": ir.tensor(np.array(True), name="always")}, name="always")
        always.outputs[0].name = "always"
        branches = {
            "then_branch": ir.Graph([], [y], nodes=writer.nodes, name="then"),
            "else_branch": ir.Graph([], other.outputs, nodes=[other], name="else"),
        }
        outer = ir.node("If", [always.outputs[0]], branches, name="if")
        return [], [always, outer], outer
    once = ir.node("Constant", [], {"value": ir.tensor(np.array(1), name="once")}, name="once")
    once.outputs[0].name = "once"
    step, going = ir.val("step", ir.DataType.INT64, ()), ir.val("going", ir.DataType.BOOL, ())
    on = ir.node("Identity", [going], name="on")
    on.outputs[0].name, on.outputs[0].type, on.outputs[0].shape = "on", going.type, going.shape
    body = ir.Graph([step, going, inner], [on.outputs[0], y], nodes=[on, *writer.nodes], name="body")
    outer = ir.node("Loop", [once.outputs[0], None, x], {"body": body}, name="loop")
    return [], [once, outer], outer


def _functions(
    place: Place, writer: Writer, inner: ir.Value, x: ir.Value, y: ir.Value, imports: dict[str, int]
) -> tuple[list[ir.Function], list[ir.Node], ir.Node]:
    """The formula as a function of its input and, where constants live outside, of them."""
    arguments = [ir.val(f"argument.{value.name}") for value in writer.constants]
    for value, argument in zip(writer.constants, arguments, strict=True):
        value.replace_all_uses_with(argument)
    y.name = "inner.y"

    def function(name: str, inputs: list[ir.Value], outputs: list[ir.Value], nodes: list[ir.Node]) -> ir.Function:
        graph = ir.Graph(inputs, outputs, nodes=nodes, opset_imports={**imports, "test": 1}, name=name)
        return ir.Function("test", name, "", graph=graph, attributes=())

    made = [function("Inner", [inner, *arguments], [y], writer.nodes)]
    name = "Inner"
    if place == "nested":
        again = [ir.val(f"outer.{value.name}") for value in made[0].inputs]
        call = ir.node("Inner", again, domain="test", name="call")
        call.outputs[0].name = "outer.y"
        made.append(function("Outer", again, list(call.outputs), [call]))
        name = "Outer"
    outer = ir.node(name, [x, *writer.constants], domain="test", name="outer")
    return made, [outer], outer

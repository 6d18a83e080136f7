"""From a value back to the single value that decides it, and the function between the two, by evaluation.

It knows element-wise arithmetic and nothing of GELU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

_elementwise_erf = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Any) -> Any:
    return np.asarray(_elementwise_erf(x), np.float64)


def _sigmoid(x: Any) -> Any:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _sum(*terms: Any) -> Any:
    return reduce(np.add, terms)


def _same(x: Any, *_: Any) -> Any:
    return x


EVALUATE: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Neg": np.negative,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Reciprocal": np.reciprocal,
    "Erf": _erf,
    "Tanh": np.tanh,
    "Sigmoid": _sigmoid,
    "Sum": _sum,
    "Identity": _same,
    "Cast": _same,
    "CastLike": _same,
    "Dropout": _same,
}
"""Element-wise operators of the default domain, as functions of float64 arrays."""

FIRST_ONLY = {"CastLike", "Dropout", "Cast", "Identity"}
FLOATS = {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE}
BUDGET = 24
"""Operators in one cone. The longest known spelling, the inlined function body of Gelu-20, has 14."""
UNIFORM_LIMIT = 1 << 22
"""Elements of a constant that are looked at to see whether they are all the same number."""


def operands(node: ir.Node) -> tuple[ir.Value | None, ...]:
    """The inputs of ``node`` that its value depends on."""
    return tuple(node.inputs[:1] if node.op_type in FIRST_ONLY else node.inputs)


def elementwise(node: ir.Node | None) -> bool:
    """Whether ``node`` can be evaluated here."""
    if node is None or node.domain not in ("", "ai.onnx") or node.op_type not in EVALUATE:
        return False
    if node.op_type == "Cast":
        return node.attributes["to"].as_int() in FLOATS
    return all(value is not None for value in operands(node))


class Cones:
    """The element-wise neighbourhood of every value of one graph.

    Args:
        graph: The graph; its nodes in topological order.
        overridable: Whether an initializer that is also a graph input is no constant (IR version 4 and later).
    """

    def __init__(self, graph: ir.Graph | ir.Function, *, overridable: bool = True) -> None:
        self.order = {node: place for place, node in enumerate(graph)}
        self.boundary: set[ir.Value] = set()
        self._overridable = overridable
        self._constants: dict[ir.Value, float | None] = {}
        for node in self.order:  # in order, so that no constant ever recurses into a long chain
            if elementwise(node):
                self.constant(node.outputs[0])

    def constant(self, value: ir.Value) -> float | None:
        """The one number that ``value`` holds everywhere, whatever its shape; None if it is no constant."""
        if value not in self._constants:
            self._constants[value] = None
            self._constants[value] = self._number(value)
        return self._constants[value]

    def sources(self, value: ir.Value) -> Iterator[tuple[ir.Value, list[ir.Node]]]:
        """Values that alone decide ``value``, nearest first, each with the nodes between in topological order."""
        frontier, cone = {value}, list[ir.Node]()
        while frontier and len(cone) < BUDGET:
            latest = max(frontier, key=self._place)
            node = latest.producer()
            if node is None or not elementwise(node) or (latest in self.boundary and latest is not value):
                return
            frontier.remove(latest)
            cone.append(node)
            frontier.update(v for v in operands(node) if v is not None and self.constant(v) is None)
            if len(frontier) == 1:
                yield next(iter(frontier)), cone[::-1]

    def evaluate(self, source: ir.Value, cone: list[ir.Node], at: Float64) -> Float64:
        """The last value of ``cone`` as a function of ``source``, in float64, at the points ``at``."""
        values: dict[ir.Value | None, Any] = {source: at}
        with np.errstate(all="ignore"):
            for node in cone:
                arguments = [values[v] if v in values else self.constant(v) for v in operands(node) if v is not None]
                values[node.outputs[0]] = EVALUATE[node.op_type](*arguments)
            return np.broadcast_to(np.asarray(values[cone[-1].outputs[0]], np.float64), at.shape)

    def keeps_shape(self, source: ir.Value, cone: list[ir.Node]) -> bool:
        """Whether the cone's output surely has the shape of its source: no constant in it broadcasts it to more."""
        inner = {source} | {node.outputs[0] for node in cone}
        constants = (v for node in cone for v in operands(node) if v is not None and v not in inner)
        return all(self._harmless(value, source, inner) for value in constants)

    def _harmless(self, value: ir.Value, source: ir.Value, inner: set[ir.Value]) -> bool:
        producer = value.producer()
        if producer is not None and producer.op_type in ("ConstantOfShape", "Expand"):
            asked = producer.inputs[-1]
            shape_of = asked.producer() if asked is not None else None
            return shape_of is not None and shape_of.op_type == "Shape" and shape_of.inputs[0] in inner
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is None:
            assert producer is not None
            return all(self._harmless(v, source, inner) for v in operands(producer) if v is not None)
        if not tensor.shape.dims:
            return True
        if source.shape is None or len(tensor.shape) > len(source.shape):
            return False
        pairs = zip(reversed(tensor.shape.dims), reversed(source.shape.dims), strict=False)
        return all(size in (1, own) for size, own in pairs)

    def _place(self, value: ir.Value) -> int:
        node = value.producer()
        return -1 if node is None else self.order.get(node, -1)

    def _number(self, value: ir.Value) -> float | None:
        if self._overridable and value.is_graph_input() and value.is_initializer():
            return None
        node = value.producer()
        if node is None or node.op_type == "Constant":
            return uniform(_tensor(value))
        if node.op_type == "ConstantOfShape":
            filling = node.attributes.get("value")
            return 0.0 if filling is None else uniform(filling.as_tensor())
        if node.op_type == "Expand" and node.inputs[0] is not None:
            return self.constant(node.inputs[0])
        if not elementwise(node) or node not in self.order:
            return None
        known = [self.constant(v) for v in operands(node) if v is not None]
        if None in known or not known:
            return None
        with np.errstate(all="ignore"):
            return float(EVALUATE[node.op_type](*(np.float64(v) for v in known if v is not None)))


def _tensor(value: ir.Value) -> ir.TensorProtocol | None:
    try:
        return ir.convenience.get_const_tensor(value)
    except ValueError:  # a Constant node without exactly one attribute: not valid, not ours to judge
        return None


def uniform(tensor: ir.TensorProtocol | None) -> float | None:
    """The number that every element of ``tensor`` is; None when they differ, or it holds no numbers."""
    if tensor is None or not 0 < tensor.size <= UNIFORM_LIMIT or tensor.dtype == ir.DataType.STRING:
        return None
    flat = np.asarray(tensor.numpy()).reshape(-1)
    if flat.dtype.kind == "c" or (flat[0] != flat[-1]) or (flat.size > 2 and (flat != flat[0]).any()):
        return None
    return float(flat[0])

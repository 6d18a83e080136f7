"""From a value back to the single value that decides it, and the function between the two, by evaluation.

It knows element-wise arithmetic, subgraphs and functions, and nothing of GELU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from gelu_deploy.graph.arithmetic import EVALUATE, elementwise, operands, tensor_of, uniform

Float64 = NDArray[np.float64]

BUDGET = 24
"""Operators in one cone. The longest known spelling, the inlined function body of Gelu-20, has 14."""

Signature = tuple[Any, ...]


class Cones:
    """The element-wise neighbourhood of every value of one graph.

    Args:
        graph: The graph, a subgraph or a function; its nodes in topological order.
        overridable: Whether an initializer that is also a graph input is no constant (IR version 4 and later).
        outer: The cones of the graph around a subgraph, for constants that are computed there.
        given: Inputs of a function that every caller gives the same scalar.
    """

    def __init__(
        self,
        graph: ir.Graph | ir.Function,
        *,
        overridable: bool = True,
        outer: Cones | None = None,
        given: Mapping[ir.Value, float] | None = None,
    ) -> None:
        self.graph = graph
        self.order = {node: place for place, node in enumerate(graph)}
        self.boundary: set[ir.Value] = set()
        self._overridable = overridable
        self._outer = outer
        self._given = dict(given or {})
        self._constants: dict[ir.Value, float | None] = dict(self._given)
        self._twins: dict[ir.Value, ir.Value] = {}
        self.by_op: dict[str, list[ir.Node]] = {}
        firsts: dict[Any, ir.Value] = {}
        for node in self.order:
            op = node.op_type
            self.by_op.setdefault(op, []).append(node)
            if op in EVALUATE:
                self._compute(node)
            elif op == "DequantizeLinear":
                self._twins[node.outputs[0]] = firsts.setdefault(self._identity(node), node.outputs[0])

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
            latest = next(iter(frontier)) if len(frontier) == 1 else max(frontier, key=self._place)
            node = latest.producer()
            if node not in self.order or not elementwise(node) or (latest in self.boundary and latest is not value):
                return
            frontier.remove(latest)
            cone.append(node)
            frontier.update(self.seen_as(v) for v in operands(node) if v is not None and self.constant(v) is None)
            if len(frontier) == 1:
                yield next(iter(frontier)), cone[::-1]

    def seen_as(self, value: ir.Value) -> ir.Value:
        """The value itself, or the first DequantizeLinear output that holds the same."""
        return self._twins.get(value, value)

    def evaluate(self, source: ir.Value, cone: list[ir.Node], at: Float64) -> Float64:
        """The last value of ``cone`` as a function of ``source``, in float64, at the points ``at``."""
        values: dict[ir.Value, Any] = {source: at}
        with np.errstate(all="ignore"):
            for node in cone:
                inputs = [self.seen_as(v) for v in operands(node) if v is not None]
                arguments = [values[v] if v in values else self.constant(v) for v in inputs]
                values[node.outputs[0]] = EVALUATE[node.op_type](*arguments)
            return np.broadcast_to(np.asarray(values[cone[-1].outputs[0]], np.float64), at.shape)

    def signature(self, source: ir.Value, cone: list[ir.Node]) -> Signature:
        """What :meth:`evaluate` depends on: operators, wiring and numbers, the same for every copy of a spelling."""
        places: dict[ir.Value, int] = {source: -1}
        parts = list[Any]()
        for place, node in enumerate(cone):
            inputs = [self.seen_as(v) for v in operands(node) if v is not None]
            parts.append((node.op_type, *(places[v] if v in places else self.constant(v) for v in inputs)))
            places[node.outputs[0]] = place
        return tuple(parts)

    def keeps_shape(self, source: ir.Value, cone: list[ir.Node]) -> bool:
        """Whether the cone's output surely has the shape of its source: no constant in it broadcasts it to more."""
        inner = {source} | {node.outputs[0] for node in cone}
        inputs = (self.seen_as(v) for node in cone for v in operands(node) if v is not None)
        return all(self._harmless(value, source, inner) for value in inputs if value not in inner)

    def _identity(self, node: ir.Node) -> Any:
        """What a DequantizeLinear computes, for comparison with another one."""
        scales = [value if value is None or (n := self.constant(value)) is None else n for value in node.inputs[1:]]
        return (node.domain, node.inputs[0], *scales, *((a.name, a.value) for a in node.attributes.values()))

    def _harmless(self, value: ir.Value, source: ir.Value, inner: set[ir.Value]) -> bool:
        if value in self._given:
            return True
        producer = value.producer()
        if producer is not None and producer.op_type in {"ConstantOfShape", "Expand"}:
            asked = producer.inputs[-1]
            shape_of = asked.producer() if asked is not None else None
            return shape_of is not None and shape_of.op_type == "Shape" and shape_of.inputs[0] in inner
        tensor = tensor_of(value)
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

    def _compute(self, node: ir.Node) -> None:
        """Fold a node that reads constants alone; in order, so that nothing ever recurses into a long chain."""
        known = list[np.float64]()
        for value in operands(node):
            number = None if value is None else self.constant(value)
            if number is None:
                return
            known.append(np.float64(number))
        if known and elementwise(node):
            with np.errstate(all="ignore"):
                self._constants[node.outputs[0]] = float(EVALUATE[node.op_type](*known))

    def _number(self, value: ir.Value) -> float | None:
        if self._overridable and value.is_graph_input() and value.is_initializer():
            return None
        node = value.producer()
        if node is None or node.op_type == "Constant":
            return uniform(tensor_of(value))
        if node not in self.order:
            return None if self._outer is None else self._outer.constant(value)
        if node.op_type == "ConstantOfShape":
            filling = node.attributes.get("value")
            return 0.0 if filling is None else None if filling.is_ref() else uniform(filling.as_tensor())
        if node.op_type == "Expand" and node.inputs[0] is not None:
            return self.constant(node.inputs[0])
        return None  # what is computed from constants alone was computed in order, see _compute

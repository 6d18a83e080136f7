"""From a value back to the single value that decides it, and the function between the two, by evaluation.

It knows element-wise arithmetic, subgraphs and functions, and nothing of GELU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from gelu_deploy.gelu.operators import EVALUATE
from gelu_deploy.graph.arithmetic import elementwise, operands, tensor_of, uniform

Float64 = NDArray[np.float64]

BUDGET = 24
"""Operators in one cone. The longest known spelling, the inlined function body of Gelu-20, has 14."""


class Cone(NamedTuple):
    """Everything between a value and one that alone decides it.

    Attributes:
        source: The value that decides.
        stretches: The way back to it, nearest first.
        key: What :meth:`Cones.evaluate` depends on, as one number: the same for every copy of a spelling, since
            operators, wiring and numbers are, and for nothing else.
    """

    source: ir.Value
    stretches: tuple[Stretch, ...]
    key: int

    @property
    def nodes(self) -> list[ir.Node]:
        """The operators between, in topological order."""
        return [node for stretch in reversed(self.stretches) for node in reversed(stretch.nodes)]


class Stretch(NamedTuple):
    """The way back from a value to the nearest one that alone decides it.

    Attributes:
        source: That value.
        nodes: The operators between, last first.
        inner: What all but the last of them make.
        wiring: Operators, operands and numbers; values by the order in which they are met, beside the numbers.
    """

    source: ir.Value
    nodes: tuple[ir.Node, ...]
    inner: tuple[ir.Value, ...]
    wiring: tuple[Any, ...]


class _Maker(NamedTuple):
    """What makes a value: where in topological order (-1 outside), and how, if that can be evaluated.

    Attributes:
        place: Index of the operator.
        node: The operator, if it can be evaluated.
        op: Its type, and what it reads: constants as their numbers, None for a value.
        values: What stands in the places of None.
    """

    place: int
    node: ir.Node | None = None
    op: tuple[str | float | None, ...] = ()
    values: tuple[ir.Value, ...] = ()


class Cones:
    """The element-wise neighbourhood of every value of one graph.

    Args:
        graph: The graph, a subgraph or a function; its nodes in topological order.
        overridable: Whether an initializer that is also a graph input is no constant (IR version 4 and later).
        outer: The cones of the graph around a subgraph, for constants that are computed there.
        given: Inputs of a function that every caller gives the same scalar.
        like: The cones of another graph of the model, so that a spelling has one key in both.
    """

    def __init__(
        self,
        graph: ir.Graph | ir.Function,
        *,
        overridable: bool = True,
        outer: Cones | None = None,
        given: Mapping[ir.Value, float] | None = None,
        like: Cones | None = None,
    ) -> None:
        self.order: dict[ir.Node, int] = {}
        self.by_op = defaultdict[str, list[ir.Node]](list)
        self.boundary: set[ir.Value] = set()
        self._overridable = overridable
        self._outer = outer
        self._given = dict(given or {})
        self._constants: dict[ir.Value, float | None] = dict(self._given)
        known = outer or like
        self._spellings: dict[Any, int] = known._spellings if known else {}
        self._makers: dict[ir.Value, _Maker] = {}
        self._stretches: dict[ir.Value, Stretch | None] = {}
        self._twins: dict[ir.Value, ir.Value] = {}
        for place, node in enumerate(graph):
            self.order[node] = place
            self.by_op[node.op_type].append(node)
        firsts: dict[Any, ir.Value] = {}
        for node in self.by_op.get("DequantizeLinear", ()):
            self._twins[node.outputs[0]] = firsts.setdefault(self._identity(node), node.outputs[0])

    def constant(self, value: ir.Value, depth: int = BUDGET) -> float | None:
        """The one number that ``value`` holds everywhere, whatever its shape; None if it is no constant.

        Constants computed from constants by more than ``depth`` operators in a row are not seen.
        """
        if value not in self._constants:
            self._constants[value] = self._number(value, depth)
        return self._constants[value]

    def evaluable(self, node: ir.Node) -> bool:
        """Whether a node of this graph is element-wise arithmetic that :meth:`evaluate` knows."""
        return len(node.outputs) > 0 and self._maker(node.outputs[0]).node is not None

    def sources(self, value: ir.Value, bends: set[ir.Node] | None = None) -> Iterator[Cone]:
        """Values that alone decide ``value``, nearest first.

        Args:
            value: Where the way back begins.
            bends: Only sources behind one of these nodes are wanted, where another path leads around it: what is seen
                through the bend alone is bent for good.
        """
        stretches: tuple[Stretch, ...] = ()
        key, size, wanted, latest = 0, 0, bends is None, value
        while (stretch := self._stretch(latest)) is not None:
            size += len(stretch.nodes)
            crossed = (stretches and latest in self.boundary) or not self.boundary.isdisjoint(stretch.inner)
            if size > BUDGET or crossed:
                return
            stretches += (stretch,)
            key = self._spellings.setdefault((key, stretch.wiring), len(self._spellings) + 1)
            latest = stretch.source
            if bends is not None and not bends.isdisjoint(stretch.nodes):
                wanted = True
                if len(stretch.nodes) == 1:
                    return
            if wanted:
                yield Cone(latest, stretches, key)

    def _stretch(self, value: ir.Value) -> Stretch | None:
        """The way back from ``value`` to the nearest value that alone decides it. Walked once for each value."""
        if value not in self._stretches:
            self._stretches[value] = self._walked(value)
        return self._stretches[value]

    def _walked(self, value: ir.Value) -> Stretch | None:
        made = self._maker(value)
        if made.node is None or not made.values:
            return None
        if len(made.values) == 1:
            return Stretch(made.values[0], (made.node,), (), made.op)
        nodes: list[ir.Node] = []
        wiring: list[Any] = []
        frontier: dict[ir.Value, int] = {}
        names, latest = {value: 0}, value
        while made.node is not None and len(nodes) < BUDGET:
            nodes.append(made.node)
            wiring += [names[latest], made.op]
            for item in made.values:
                if item not in names:
                    names[item] = len(names)
                    frontier[item] = self._maker(item).place
                wiring.append(names[item])
            if len(frontier) == 1:
                (source,) = frontier
                inner = tuple(node.outputs[0] for node in nodes[1:])
                return Stretch(source, tuple(nodes), inner, tuple(wiring))
            if not frontier:
                return None
            latest = max(frontier, key=frontier.__getitem__)
            del frontier[latest]
            made = self._maker(latest)
        return None

    def seen_as(self, value: ir.Value) -> ir.Value:
        """The value itself, or the first DequantizeLinear output that holds the same."""
        return self._twins.get(value, value)

    def evaluate(self, cone: Cone, at: Float64) -> Float64:
        """What a cone ends in as a function of its source, in float64, at the points ``at``."""
        values: dict[ir.Value, Any] = {cone.source: at}
        nodes = cone.nodes
        with np.errstate(all="ignore"):
            for node in nodes:
                made = self._maker(node.outputs[0])
                left = iter(made.values)
                arguments = (values[next(left)] if number is None else number for number in made.op[1:])
                values[node.outputs[0]] = EVALUATE[node.op_type](*arguments)
            return np.broadcast_to(np.asarray(values[nodes[-1].outputs[0]], np.float64), at.shape)

    def keeps_shape(self, cone: Cone) -> bool:
        """Whether the cone's output surely has the shape of its source: no constant in it broadcasts it to more."""
        nodes, source = cone.nodes, cone.source
        inner = {source} | {node.outputs[0] for node in nodes}
        inputs = (self.seen_as(v) for node in nodes for v in operands(node) if v is not None)
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

    def _maker(self, value: ir.Value, depth: int = BUDGET) -> _Maker:
        made = self._makers.get(value)
        if made is None:
            made = self._makers[value] = self._made(value, depth)
        return made

    def _made(self, value: ir.Value, depth: int) -> _Maker:
        node = value.producer()
        place = -1 if node is None else self.order.get(node, -1)
        if node is None or place < 0 or not elementwise(node) or value is not node.outputs[0]:
            return _Maker(place)
        values: list[ir.Value] = []
        op: list[str | float | None] = [node.op_type]
        for index, operand in enumerate(operands(node)):
            missing = -np.inf if index == 1 else np.inf  # the bounds of a Clip; nothing else may lack one here
            number = missing if operand is None else self.constant(operand, depth)
            op.append(number)
            if number is None and operand is not None:
                values.append(self._twins.get(operand, operand))
        return _Maker(place, node, tuple(op), tuple(values))

    def _number(self, value: ir.Value, depth: int) -> float | None:
        node = value.producer()
        if node is None and self._overridable and value.is_graph_input() and value.is_initializer():
            return None
        if node is None or node.op_type == "Constant":
            return uniform(tensor_of(value))
        if node not in self.order:
            return None if self._outer is None else self._outer.constant(value)
        if node.op_type == "ConstantOfShape":
            filling = node.attributes.get("value")
            return 0.0 if filling is None else None if filling.is_ref() else uniform(filling.as_tensor())
        if depth == 0:
            return None
        if node.op_type == "Expand" and node.inputs[0] is not None:
            return self.constant(node.inputs[0], depth - 1)
        made = self._maker(value, depth - 1)
        if made.node is None or made.values:
            return None
        with np.errstate(all="ignore"):
            return float(EVALUATE[node.op_type](*(np.float64(number) for number in made.op[1:])))

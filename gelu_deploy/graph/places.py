"""Every graph of a model in which a node can stand: the main one, subgraphs, functions.

It knows how constants reach each of them, and nothing of GELU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import onnx_ir as ir

from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.graph.cone import Cones


@dataclass(frozen=True)
class Place:
    """One graph of a model.

    Attributes:
        graph: The main graph, a subgraph, or a function.
        cones: Its element-wise neighbourhoods.
        function: Name of the function that it is, or is inside of; ``""`` if none.
    """

    graph: ir.Graph | ir.Function
    cones: Cones
    function: str = ""


def places(model: ir.Model) -> list[Place]:
    """The main graph first, each subgraph after the graph around it, each function after its callers."""
    overridable = (model.ir_version or 0) >= 4
    found = list(_nested(model.graph, None, overridable=overridable))
    for key in _callers_first(model):
        function = model.functions[key]
        cones = Cones(function, given=_given(function, _calls(key, found)), like=found[0].cones)
        inside = [inner for node in function for inner in _inside(node, cones, overridable=False)]
        found += [replace(place, function=name_of(function)) for place in (Place(function, cones), *inside)]
    return found


def name_of(function: ir.Function) -> str:
    """``domain::name``, and its overload if it has one."""
    return "::".join(filter(None, (function.domain, function.name, function.overload)))


def _nested(graph: ir.Graph, outer: Cones | None, *, overridable: bool) -> Iterator[Place]:
    place = Place(graph, Cones(graph, overridable=overridable, outer=outer))
    yield place
    for node in place.cones.order:
        if node.attributes:
            yield from _inside(node, place.cones, overridable=overridable)


def _inside(node: ir.Node, outer: Cones, *, overridable: bool) -> Iterator[Place]:
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield from _nested(attribute.as_graph(), outer, overridable=overridable)
        elif attribute.type == ir.AttributeType.GRAPHS:
            for graph in attribute.as_graphs():
                yield from _nested(graph, outer, overridable=overridable)


def _callers_first(model: ir.Model) -> list[ir.OperatorIdentifier]:
    """Names of the functions; each one after all that call it, as far as they call each other without a circle."""
    called_by: dict[ir.OperatorIdentifier, set[ir.OperatorIdentifier]] = {key: set() for key in model.functions}
    for caller, function in model.functions.items():
        for node in function.all_nodes():
            if node.op_identifier() in called_by:
                called_by[node.op_identifier()].add(caller)
    order = list[ir.OperatorIdentifier]()
    while called_by:
        ready = [key for key, callers in called_by.items() if not callers & called_by.keys()] or list(called_by)
        order += ready
        called_by = {key: callers for key, callers in called_by.items() if key not in ready}
    return order


def _calls(key: ir.OperatorIdentifier, known: list[Place]) -> list[tuple[Cones, ir.Node]]:
    return [(place.cones, node) for place in known for node in place.cones.order if node.op_identifier() == key]


def _given(function: ir.Function, calls: list[tuple[Cones, ir.Node]]) -> dict[ir.Value, float]:
    """Inputs for which every call gives the same scalar constant."""
    given = dict[ir.Value, float]()
    for index, value in enumerate(function.inputs):
        numbers = {_scalar(cones, node, index) for cones, node in calls}
        number = numbers.pop() if len(numbers) == 1 else None
        if number is not None:
            given[value] = number
    return given


def _scalar(cones: Cones, node: ir.Node, index: int) -> float | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return None
    tensor = tensor_of(value)
    has_axes = tensor is not None and bool(tensor.shape.dims)
    return None if has_axes else cones.constant(value)

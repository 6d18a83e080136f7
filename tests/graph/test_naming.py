"""Every operator has a name of its own."""

from __future__ import annotations

import onnx_ir as ir
from graphs import model, op

from gelu_deploy.graph.naming import Names


def test_what_has_a_name_of_its_own_keeps_it_and_the_rest_are_called_as_what_they_make() -> None:
    graph = model(lambda x: op("Tanh", op("Erf", op("Sigmoid", op("Neg", op("Abs", x))))))
    for node, name in zip(graph.graph, ["first", "", "twice", "twice", None], strict=True):
        node.name = name
    graph.graph[2].outputs[0].name = "first"
    result = Names().apply(graph)
    assert result.modified
    assert result.notes == ("operators without a name of their own got one (4)",)
    assert [node.name for node in graph.graph] == ["first", "neg_1", "first.2", "erf_3", "y"]
    assert not Names().apply(graph).modified


def test_operators_inside_a_branch_are_named_too() -> None:
    graph = model(lambda x: op("Neg", op("Abs", x)), place="if")
    for node in graph.graph.all_nodes():
        node.name = ""
    Names().apply(graph)
    names = [node.name for node in graph.graph.all_nodes()]
    assert all(names)
    assert len(set(names)) == len(names)
    assert isinstance(graph, ir.Model)

"""Cones evaluated: against numpy for random trees of operators, and their edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, Formula, Writer, erf, model, op, tanh
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser
from scipy import special

from gelu_deploy.graph.arithmetic import uniform
from gelu_deploy.graph.cone import BUDGET, Cone, Cones

AT = np.linspace(-3, 3, 61)
UNARY: dict[str, Callable[[Any], Any]] = {
    "Neg": np.negative,
    "Exp": np.exp,
    "Sqrt": np.sqrt,
    "Reciprocal": lambda x: 1 / x,
    "Erf": special.erf,
    "Tanh": np.tanh,
    "Sigmoid": special.expit,
    "Identity": lambda x: x,
    "Dropout": lambda x: x,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Sum": np.add,
}
NUMBERS = st.sampled_from([0.5, -1.0, 2.0, 0.044715, 3.0])
Tree = Any
"""``"x"``, a number, or an operator with its operands: ``("Add", "x", 0.5)``."""
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.just("x") | NUMBERS,
    lambda inner: (
        st.tuples(st.sampled_from(sorted(UNARY)), inner) | st.tuples(st.sampled_from(sorted(BINARY)), inner, inner)
    ),
    max_leaves=8,
)


def written(tree: Tree, x: Expression) -> Expression:
    if tree == "x":
        return x
    if isinstance(tree, float):
        return Expression(x.writer.constant(tree), x.writer)
    name, *operands = tree
    return x.writer.op(name, *(written(operand, x) for operand in operands))


def value(tree: Tree) -> Any:
    if tree == "x":
        return AT
    if isinstance(tree, float):
        return np.float64(tree)
    name, *operands = tree
    return (UNARY | BINARY)[name](*map(value, operands))


def operators(tree: Tree) -> int:
    return 0 if isinstance(tree, (str, float)) else 1 + sum(map(operators, tree[1:]))


def of_x(tree: Tree) -> bool:
    return tree == "x" if isinstance(tree, (str, float)) else any(map(of_x, tree[1:]))


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_any_tree_is_the_function_that_numpy_says(tree: Tree) -> None:
    writer = Writer(ir.DataType.DOUBLE)
    x = ir.val("x", ir.DataType.DOUBLE, ["n"])
    y = written(tree, Expression(x, writer)).value
    graph = ir.Graph([x], [y], nodes=writer.nodes, initializers=writer.constants, opset_imports={"": 20})
    cones = Cones(graph)
    with np.errstate(all="ignore"):
        wanted = np.broadcast_to(value(tree), AT.shape)
    if not of_x(tree):
        number = cones.constant(y)
        assert number is not None
        np.testing.assert_allclose(number, wanted[0], rtol=1e-12)
        return
    assert cones.constant(y) is None
    if y is x or operators(tree) > BUDGET:
        return
    cone = next(cone for cone in cones.sources(y) if cone.source is x)
    np.testing.assert_allclose(cones.evaluate(cone, AT), wanted, rtol=1e-9, atol=1e-300)


def test_sources_come_nearest_first() -> None:
    graph = model(lambda x: tanh(erf(-x)))
    found = [(cone.source.name, [node.op_type for node in cone.nodes]) for cone in cones_of(graph)]
    assert found == [
        ("erf_1", ["Tanh"]),
        ("neg_0", ["Erf", "Tanh"]),
        ("x", ["Neg", "Erf", "Tanh"]),
    ]


def cones_of(graph: ir.Model) -> list[Cone]:
    return list(Cones(graph.graph).sources(graph.graph.outputs[0]))


def test_two_sources_are_none() -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[N] x, float[N] w) => (float[N] y) { y = Add(x, w) }'
    assert cones_of(ir.from_proto(parser.parse_model(text))) == []


def test_what_is_not_elementwise_ends_a_cone() -> None:
    graph = model(lambda x: tanh(op("Relu", x)))
    assert [cone.source.name for cone in cones_of(graph)] == ["relu_0"]


def test_a_cast_to_integers_is_not_elementwise() -> None:
    graph = model(lambda x: tanh(op("Cast", op("Cast", x, to=7), to=1)))
    assert [cone.source.name for cone in cones_of(graph)] == ["cast_1", "cast_0"]


def test_the_budget_ends_the_walk() -> None:
    def chain(x: Expression) -> Expression:
        for _ in range(BUDGET + 5):
            x = -x
        return x

    assert len(cones_of(model(chain))) == BUDGET


def test_a_boundary_is_not_crossed() -> None:
    graph = model(lambda x: tanh(erf(x)))
    cones = Cones(graph.graph)
    cones.boundary.add(graph.graph[0].outputs[0])
    assert [cone.source.name for cone in cones.sources(graph.graph.outputs[0])] == ["erf_0"]


@pytest.mark.parametrize(("array", "number"), [
    (np.float32(2), 2.0),
    (np.full((2, 3), 0.5, np.float16), 0.5),
    (np.array([3]), 3.0),
    (np.array([True]), 1.0),
    (np.array([1.0, 1.0, 2.0, 1.0]), None),
    (np.array([1.0, 2.0]), None),
    (np.zeros(0, np.float32), None),
    (np.array([1j]), None),
    (np.array(["a"]), None),
    (np.array([np.nan, np.nan]), None),
])  # fmt: skip
def test_a_uniform_constant_is_its_number(array: Any, number: float | None) -> None:
    assert uniform(ir.tensor(array)) == number


def test_nothing_is_no_number() -> None:
    assert uniform(None) is None


@pytest.mark.parametrize(("overridable", "number"), [(True, None), (False, 2.0)])
def test_a_constant_that_may_be_overridden_is_none(overridable: bool, number: float | None) -> None:
    graph = model(lambda x: x * 2.0, home="overridable")
    constant = next(iter(graph.graph.initializers.values()))
    assert Cones(graph.graph, overridable=overridable).constant(constant) == number


@pytest.mark.parametrize(
    ("constant", "same"),
    [(np.float32(1), True), (np.ones((1, 8), np.float32), True), (np.ones((4, 8), np.float32), True),
     (np.ones((5, 4, 8), np.float32), False), (np.ones((1, 1, 1, 1), np.float32), False)],
)  # fmt: skip
def test_constants_that_broadcast_to_more_are_told(constant: Any, same: bool) -> None:
    graph = model(lambda x: tanh(x * constant), shape=("n", 4, 8))
    cone = cones_of(graph)[-1]
    assert cone.source.name == "x"
    assert Cones(graph.graph).keeps_shape(cone) is same


def test_copies_of_a_spelling_share_a_key_and_nothing_else_does() -> None:
    """A number is never taken for a value: erf(x)·1 is not erf(x)·x, nor is x−erf(x) the same as erf(x)−x."""
    formulas: list[Formula] = [
        lambda x: erf(x) * 0.0,
        lambda x: erf(x) * 1.0,
        lambda x: erf(x) * 2.0,
        lambda x: erf(x) * -1.0,
        lambda x: erf(x) * x,
        lambda x: x * erf(x),
        lambda x: erf(x) * erf(x),
        lambda x: x - erf(x),
        lambda x: erf(x) - x,
        lambda x: tanh(x) - x,
        lambda x: tanh(x) * erf(x),
    ]
    first: Cones | None = None
    keys = list[int]()
    for formula in [*formulas, *formulas]:
        graph = model(formula).graph
        cones = Cones(graph, like=first)
        first = first or cones
        (*_, whole) = cones.sources(graph.outputs[0])
        assert whole.source.name == "x"
        keys.append(whole.key)
    assert keys[: len(formulas)] == keys[len(formulas) :]
    assert len(set(keys)) == len(formulas)


def test_a_source_seen_through_a_bend_alone_is_not_wanted() -> None:
    graph = model(lambda x: x * erf(tanh(x) * 0.5 + x)).graph
    bends = {node for node in graph if node.op_type in {"Erf", "Tanh"}}
    cones = Cones(graph)
    assert [cone.source.name for cone in cones.sources(graph.outputs[0], bends)] == ["x"]
    (gate,) = (node.outputs[0] for node in graph if node.op_type == "Erf")
    assert list(cones.sources(gate, bends)) == []
    assert [cone.source.name for cone in cones.sources(gate)] == ["add_2", "x"]


def test_a_constant_computed_by_too_many_operators_is_none() -> None:
    def computed(count: int) -> ir.Model:
        def formula(x: Expression) -> Expression:
            number = Expression(x.writer.constant(2.0), x.writer)
            for _ in range(count):
                number = -number
            return x * number

        return model(formula)

    for count, number in ((BUDGET - 1, -2.0), (2 * BUDGET, None), (5000, None)):
        graph = computed(count).graph
        assert Cones(graph).constant(graph[-1].inputs[1] or graph.inputs[0]) == number

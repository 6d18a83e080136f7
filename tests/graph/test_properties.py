"""No tree of operators is taken for a GELU that it is not, and no rearrangement of a GELU is missed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from graphs import Expression, erf, exp, model, op, sigmoid, tanh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spellings import R2, K, S

from gelu_deploy import gelu
from gelu_deploy.graph.recognize import find

Draw = Callable[..., Any]
CONSTANTS = [0.5, 1.0, 2.0, 3.0, R2, 1 / R2, S, K, 1.702, 2 * S, math.pi, -1.0, 0.1]
WIDE = np.concatenate([np.linspace(-9, 9, 4001), [-30.0, -15.0, 15.0, 30.0]])

SLOW = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@st.composite
def trees(draw: Draw, depth: int = 8) -> Callable[[Expression], Any]:
    """A formula of x: random operators and constants, at most ``depth`` deep."""
    kind = draw(st.sampled_from(["x", "number", "unary", "binary", "binary", "binary"])) if depth else "x"
    if kind == "x":
        return lambda x: x
    if kind == "number":
        number = draw(st.sampled_from(CONSTANTS))
        return lambda _: number
    left = draw(trees(depth - 1))
    if kind == "unary":
        function = draw(st.sampled_from([erf, tanh, sigmoid, exp, Expression.__neg__]))
        return lambda x: function(v) if isinstance(v := left(x), Expression) else v
    right = draw(trees(depth - 1))
    sign = draw(st.sampled_from(["add", "sub", "mul"]))

    def combined(x: Expression) -> Any:
        a, b = left(x), right(x)
        return a + b if sign == "add" else a - b if sign == "sub" else a * b

    return combined


def reference(graph: ir.Model, source: str, output: str) -> np.ndarray | None:
    """The function between two values, in float64, node by node and without any of the product's code."""
    values: dict[str | None, Any] = {source: WIDE}
    values |= {
        name: v.const_value.numpy().astype(np.float64) for name, v in graph.graph.initializers.items() if v.const_value
    }
    erf64 = np.frompyfunc(math.erf, 1, 1)
    operators: dict[str, Callable[..., Any]] = {
        "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Tanh": np.tanh, "Exp": np.exp,
        "Erf": lambda x: np.asarray(erf64(x), np.float64), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        for node in graph.graph:
            inputs = [values.get(value.name) if value else None for value in node.inputs]
            if node.outputs[0].name not in values and all(item is not None for item in inputs):
                values[node.outputs[0].name] = operators[node.op_type](*inputs)
    return values.get(output)


@SLOW
@given(trees())
def test_no_tree_is_taken_for_what_it_is_not(tree: Callable[[Expression], Any]) -> None:
    def formula(x: Expression) -> Expression:
        y = tree(x)
        return y if isinstance(y, Expression) and y is not x else op("Neg", x)

    graph = model(formula)
    for site in find(graph).sites:
        seen = reference(graph, site.source.name or "", site.output.name or "")
        assert seen is not None
        known = site.scale * gelu.FORMS[site.form].at(site.alpha)(WIDE)
        assert np.nanmax(np.abs(np.broadcast_to(seen, WIDE.shape) - known)) < 1e-4 * abs(site.scale)


class Arranger:
    """Products and sums of one formula, associated, commuted and distributed as they are drawn."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def one_of(self, *names: str) -> str:
        return str(self.draw(st.sampled_from(names)))

    def times(self, *factors: Any) -> Any:
        """A product of any number of factors, in any order and association."""
        items = list(self.draw(st.permutations(factors)))
        while len(items) > 1:
            place = self.draw(st.integers(0, len(items) - 2))
            items[place : place + 2] = [items[place] * items[place + 1]]
        return items[0]

    def plus(self, a: Any, b: Any) -> Any:
        return a + b if self.draw(st.booleans()) else b + a

    def over(self, x: Any, number: float) -> Any:
        return x / number if self.draw(st.booleans()) else self.times(x, 1 / number)

    def cubic(self, x: Expression, scale: float) -> Any:
        """scale · (x + Kx³)."""
        style = self.one_of("outside", "inside", "factored")
        if style == "factored":
            return self.times(x, self.plus(self.times(scale * K, x, x), scale))
        cube = x**3.0 if self.draw(st.booleans()) else self.times(x, x, x)
        if style == "outside":
            return self.times(scale, self.plus(x, self.times(K, cube)))
        return self.plus(self.times(scale, x), self.times(scale * K, cube))

    def tail(self, x: Expression, bent: Any) -> Any:
        """½x · (1 + bent)."""
        style = self.one_of("product", "distributed", "expanded", "negated")
        if style == "product":
            return self.times(0.5, x, self.plus(bent, 1.0))
        if style == "distributed":
            return self.times(x, self.plus(self.times(bent, 0.5), 0.5))
        half = self.times(x, 0.5)
        return self.plus(half, self.times(half, bent)) if style == "expanded" else half * (1.0 - (-bent))

    def gelu(self, form: str, x: Expression) -> Any:
        if form == "erf":
            return self.tail(x, erf(self.over(x, R2)))
        if form == "tanh":
            return self.tail(x, tanh(self.cubic(x, S)))
        return self.times(x, sigmoid(self.times(x, 1.702) if form == "sigmoid" else self.cubic(x, 2 * S)))


@SLOW
@given(st.sampled_from(["erf", "tanh", "sigmoid", "tanh through sigmoid"]), st.data())
def test_every_rearrangement_is_found(form: str, data: st.DataObject) -> None:
    arranger = Arranger(data.draw)
    found = find(model(lambda x: arranger.gelu(form, x))).sites
    assert [(site.form, site.output.name) for site in found] == [(form.partition(" ")[0], "y")]

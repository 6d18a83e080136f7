"""Masks of −inf become finite: 0 where they forbid, the mean where they forbid everything, the rest as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, model, op
from onnx import checker

from gelu_deploy import runtime
from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.graph.masks import LOWEST, FiniteMasks

INF = np.inf
LEAST = float(np.finfo(np.float32).min)
X = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
CAUSAL = np.triu(np.full((4, 4), -INF, np.float32), 1)
FORBIDDEN = np.array([[True, False, True, False]])
"""By column."""
Formula = Callable[[Expression], Expression]


def scores(x: Expression) -> Expression:
    made: Expression = op("MatMul", x, np.eye(4, dtype=np.float32))
    return made * 0.5


def chosen(x: Expression, forbidden: Any = FORBIDDEN, least: float = -INF) -> Expression:
    """As torch writes a boolean mask: a choice of two numbers, added."""
    return scores(x) + x.writer.op("Where", forbidden, least, 0)


def guarded(softmax: Expression, instead: float = 0) -> Expression:
    """As torch keeps NaN out."""
    return op("Where", op("IsNaN", softmax), instead, softmax)


def twice(masked: Expression) -> Expression:
    return op("Softmax", masked) * op("Softmax", masked, axis=1)


def looked_at(masked: Expression) -> Expression:
    return op("Softmax", masked) + op("Cast", op("IsInf", masked), to=1)


def built(formula: Formula, **options: Any) -> ir.Model:
    return model(formula, shape=("n", 4, 4), **options)


def answer(graph: ir.Model) -> Any:
    proto = ir.to_proto(graph)
    checker.check_model(proto, full_check=True)
    return runtime.evaluate(proto.SerializeToString(), {"x": X}, optimise=False)["y"]


def ops(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph if node.op_type != "Constant"]


def least(graph: ir.Model) -> float:
    """The smallest number among the constants of a graph."""
    values = {value for node in graph.graph for value in node.inputs if value is not None}
    tensors = [tensor for value in values if (tensor := tensor_of(value)) is not None]
    tensors += [node.attributes["value"].as_tensor() for node in graph.graph if node.op_type == "ConstantOfShape"]
    return min(float(tensor.numpy().min()) for tensor in tensors)


def full(x: Expression) -> Expression:
    """−inf in the upper triangle, made of the shape of the scores."""
    shape = np.array([4, 4])
    filled = x.writer.op("ConstantOfShape", shape, value=ir.tensor(np.array([-INF], np.float32)))
    return op("Trilu", filled, np.array(1), upper=1)


LIFTED: dict[str, Formula] = {
    "chosen and added": lambda x: op("Softmax", chosen(x)),
    "a constant that is added": lambda x: op("Softmax", scores(x) + CAUSAL),
    "chosen instead of a score": lambda x: op("Softmax", x.writer.op("Where", FORBIDDEN, -np.inf, scores(x))),
    "a part, with more axes": lambda x: op("Softmax", scores(x) + op("Unsqueeze", cut(x), np.array([0]))),
    "filled": lambda x: op("Softmax", scores(x) + full(x)),
    "the lowest number": lambda x: op("Softmax", chosen(x, least=LEAST)),
    "two masks": lambda x: op("Softmax", chosen(x, least=LEAST) + np.maximum(CAUSAL, np.float32(LEAST))),
    "shared by two": lambda x: twice(chosen(x, ~np.eye(4, dtype=bool))),
}


def cut(x: Expression) -> Expression:
    return x.writer.op(
        "Slice", np.triu(np.full((6, 6), -INF, np.float32), 1), np.array([0, 0]), np.array([4, 4]), np.array([0, 1])
    )


@pytest.mark.parametrize("name", LIFTED)
@pytest.mark.parametrize("home", ["initializer", "constant"])
def test_answers_are_bit_by_bit_the_same(name: str, home: Any) -> None:
    graph = built(LIFTED[name], home=home)
    wanted, before = answer(graph), least(graph)
    result = FiniteMasks().apply(graph)
    assert result.modified
    assert "a row masked everywhere gives the mean" in result.notes[0]
    np.testing.assert_array_equal(answer(graph), wanted)
    assert before < LOWEST
    assert least(graph) == np.float32(LOWEST)
    assert (wanted == 0).any()
    assert not FiniteMasks().apply(graph).modified


def test_a_row_masked_everywhere_gives_the_mean_where_it_gave_nan() -> None:
    graph = built(lambda x: op("Softmax", chosen(x, np.array([[True], [False], [False], [True]]))))
    wanted = answer(graph)
    assert np.isnan(wanted[:, [0, 3]]).all()
    FiniteMasks().apply(graph)
    got = answer(graph)
    np.testing.assert_array_equal(got[:, [0, 3]], 0.25)
    np.testing.assert_array_equal(got[:, 1:3], wanted[:, 1:3])


def test_a_guard_of_a_finite_mask_goes_and_the_answers_stay() -> None:
    graph = built(lambda x: op("Neg", guarded(op("Softmax", chosen(x, least=LEAST)))))
    wanted = answer(graph)
    result = FiniteMasks().apply(graph)
    assert result.notes[-1] == "guards against NaN after Softmax removed (1): no mask there is infinite"
    assert ops(graph) == ["MatMul", "Mul", "Where", "Add", "Softmax", "Neg"]
    np.testing.assert_array_equal(answer(graph), wanted)


def test_a_guard_of_an_infinite_mask_stays_unless_it_is_said_that_it_may_go() -> None:
    def formula(x: Expression) -> Expression:
        return op("Neg", guarded(op("Softmax", chosen(x, np.array([[True], [False], [False], [True]])))))

    graph = built(formula)
    as_it_was, wanted = ir.to_proto(graph), answer(graph)
    assert not FiniteMasks().apply(graph).modified
    assert ir.to_proto(graph) == as_it_was
    assert FiniteMasks(guarded=True).apply(graph).modified
    assert "IsNaN" not in ops(graph)
    np.testing.assert_array_equal(answer(graph)[:, 1:3], wanted[:, 1:3])
    np.testing.assert_array_equal(wanted[:, [0, 3]], 0)
    np.testing.assert_array_equal(answer(graph)[:, [0, 3]], -0.25)


KEPT: dict[str, Formula] = {
    "the mask is looked at, too": lambda x: looked_at(chosen(x)),
    "not before a Softmax": lambda x: op("Exp", chosen(x)),
    "before a LogSoftmax": lambda x: op("LogSoftmax", chosen(x)),
    "a moderate number": lambda x: op("Softmax", chosen(x, least=-1e9)),
    "a guard of an unknown mask": lambda x: op("Neg", guarded(op("Softmax", scores(x) + x))),
    "a guard that says 1": lambda x: op("Neg", guarded(op("Softmax", scores(x)), 1)),
}


@pytest.mark.parametrize("why", KEPT)
def test_what_is_no_mask_or_is_read_by_others_stays(why: str) -> None:
    graph = built(KEPT[why])
    as_it_was = ir.to_proto(graph)
    assert not FiniteMasks().apply(graph).modified
    assert ir.to_proto(graph) == as_it_was


def test_a_constant_that_others_read_is_copied() -> None:
    def formula(x: Expression) -> Expression:
        low = Expression(x.writer.constant(CAUSAL), x.writer)
        return op("Softmax", scores(x) + low) + op("Exp", low)

    graph = built(formula)
    wanted = answer(graph)
    assert FiniteMasks().apply(graph).modified
    np.testing.assert_array_equal(answer(graph), wanted)
    assert least(graph) == -np.inf


def test_sixteen_bits_have_a_floor_of_their_own() -> None:
    causal = CAUSAL.astype(np.float16)
    graph = built(
        lambda x: op("Softmax", op("MatMul", x, np.eye(4, dtype=np.float16)) + causal), dtype=ir.DataType.FLOAT16
    )
    assert FiniteMasks().apply(graph).modified
    assert least(graph) == -3e4
    assert np.isfinite(np.float16(2) * np.float16(least(graph)))


def test_the_mask_of_an_attention_operator() -> None:
    def formula(x: Expression) -> Expression:
        heads = op("Unsqueeze", x, np.array([1]))
        return op("Squeeze", op("Attention", heads, heads, heads, CAUSAL), np.array([1]))

    graph = built(formula, opset=23)
    wanted = answer(graph)
    assert FiniteMasks().apply(graph).modified
    np.testing.assert_allclose(answer(graph), wanted, atol=1e-6)
    assert least(graph) == np.float32(LOWEST)

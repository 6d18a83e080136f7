"""Spelling x context x type x operator set: every graph is built, searched, rewritten, checked and evaluated.

The graphs come from one table: each spelling with all types and operator sets, in all places with all homes of its
constants, behind all roots, before all tails, and written in all forms. Look-alikes go through the same contexts. The
quick suite takes a third of each spelling's contexts, another for the next spelling; those marked wide take the others.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphs import Expression, Formula, Home, Place, erf, model, op
from onnx.reference import ReferenceEvaluator
from spellings import NEGATIVES, POSITIVES, R2, Spelling

from gelu_deploy import gelu, parity, runtime
from gelu_deploy.graph.recognize import Site, find
from gelu_deploy.graph.rewrite import Rewrite

F32, F16, BF16, F64 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE
OPSETS = (11, 13, 17, 18, 20, 21, 23, 25)
PLACES: tuple[Place, ...] = ("main", "function", "nested", "if", "loop")
SINCE = {"Gelu": 20, "CastLike": 15, "BFLOAT16": 13, "function": 15, "nested": 15}


class Context(NamedTuple):
    """Where and how a formula stands."""

    dtype: ir.DataType = F32
    opset: int = 20
    home: Home = "initializer"
    rank: int = 0
    place: Place = "main"
    expose: bool = False
    root: str = "input"
    tail: str = "output"


def contexts() -> Iterator[Context]:
    for dtype in (F32, F16, BF16, F64):
        yield from (Context(dtype, opset) for opset in OPSETS)
    for place in PLACES:
        homes: tuple[Home, ...] = ("initializer", "constant")
        yield from (Context(opset=opset, place=place, home=home) for home in homes for opset in (17, 20))
        yield Context(dtype=F16, place=place, home="constant")
    for rank in (1, 3):
        yield Context(rank=rank)
        yield Context(rank=rank, home="constant", opset=17)
    for opset in (17, 20):
        yield Context(expose=True, opset=opset)
        yield from (Context(root=root, opset=opset) for root in ROOTS)
        yield from (Context(tail=tail, opset=opset) for tail in TAILS)


WEIGHT = np.eye(8, dtype=np.float32)
BIAS = np.linspace(-1, 1, 8, dtype=np.float32)


def quantized_twice(x: Expression) -> tuple[Expression, Expression]:
    q = op("QuantizeLinear", x, np.array(0.05, np.float32), np.array(128, np.uint8))
    return (
        op("DequantizeLinear", q, np.array(0.05, np.float32), np.array(128, np.uint8)),
        op("DequantizeLinear", q, np.array(0.05, np.float32), np.array(128, np.uint8)),
    )


ROOTS: dict[str, Formula] = {
    "bias": lambda x: x + BIAS,
    "matmul": lambda x: op("MatMul", x, WEIGHT) + BIAS,
    "layer scale": lambda x: x * np.full(8, 1.5, np.float32),
    "halves": lambda x: op("Slice", x, np.array([0]), np.array([4]), np.array([-1])),
    "relu": lambda x: op("Relu", x),
    "reshape": lambda x: op("Reshape", x, np.array([-1, 32])),
    "dequantized": lambda x: quantized_twice(x)[0],
}
TAILS: dict[str, Formula] = {
    "matmul": lambda y: op("MatMul", y, WEIGHT),
    "two users": lambda y: op("Neg", y) - op("Abs", y),
    "gate": lambda y: y * op("Cos", y),
}


def valid(formula: Formula, context: Context) -> bool:
    """Whether the operators of a formula exist in a context at all."""
    ops = operators(formula)
    names = (*(name for domain, name in ops if not domain), context.dtype.name, context.place)
    opaque = any(domain for domain, _ in ops) and context.root in {"halves", "reshape"}
    return context.opset >= max(SINCE.get(name, 0) for name in names) and not opaque


@functools.cache
def operators(formula: Formula) -> set[tuple[str, str]]:
    """The operators of a formula, domain and name."""
    return {(node.domain, node.op_type) for node in model(formula).graph}


def built(formula: Formula, context: Context) -> ir.Model:
    def whole(x: Expression) -> Expression:
        inner = x if context.root == "input" else ROOTS[context.root](x)
        y = formula(inner)
        return y if context.tail == "output" else TAILS[context.tail](y)

    c = context
    return model(
        whole, dtype=c.dtype, opset=c.opset, home=c.home, rank=c.rank, expose=c.expose, place=c.place, shape=(2, 4, 8)
    )


def sites_of(graph: ir.Model) -> list[Site]:
    return list(find(graph).sites)


def targets(form: str, context: Context) -> tuple[tuple[str, str], ...]:
    """The forms in which a site is written in this context."""
    if context == Context(opset=17) or context == Context(opset=20):
        return (("keep", "auto"), ("erf", "ops"), ("tanh", "ops"), ("sigmoid", "ops"), ("tanh", "sigmoid3"))
    if context.dtype != F32 or context.root != "input" or context.tail != "output":
        return (("keep", "auto"),)
    return (("keep", "auto"), ("tanh" if form == "erf" else "erf", "ops"))


COUNTS: Counter[str] = Counter()
INPUT = np.random.default_rng(0).standard_normal((2, 4, 8)) * 3


def beyond_the_runtime(graph: ir.Model, dtype: ir.DataType) -> bool:
    """Whether the runtime has no kernel for the graph on the CPU: bfloat16, and erf in float64."""
    return dtype == BF16 or (dtype == F64 and any(n.op_type in {"Erf", "Gelu"} for n in graph.graph.all_nodes()))


def evaluate(graph: ir.Model, dtype: ir.DataType) -> np.ndarray:
    """The output, by the runtime, or by onnx's reference evaluator where the runtime has no kernel."""
    proto = ir.to_proto(graph)
    onnx.checker.check_model(proto, full_check=True)
    x = INPUT.astype(dtype.numpy())
    if not beyond_the_runtime(graph, dtype):
        COUNTS["evaluated by the runtime"] += 1
        return runtime.evaluate(proto.SerializeToString(), {"x": x}, optimise=False)["y"]
    COUNTS["evaluated by the reference"] += 1
    answers: list[Any] = ReferenceEvaluator(proto).run(["y"], {"x": x})  # type: ignore[assignment]  # a list, in fact
    return np.asarray(answers[0])


@pytest.mark.parametrize("third", [0, *(pytest.param(third, marks=pytest.mark.wide) for third in (1, 2))])
@pytest.mark.parametrize("spelling", POSITIVES, ids=lambda s: s.name)
def test_positive(spelling: Spelling, third: int) -> None:
    for number, context in enumerate(contexts(), POSITIVES.index(spelling)):
        if number % 3 != third or not valid(spelling.formula, context):
            continue
        for form, written in targets(spelling.form, context):
            graph = built(spelling.formula, context)
            COUNTS["graphs"] += 1
            (site,) = sites_of(graph)
            assert site.form == spelling.form, context
            rewritten = Rewrite((site,), form, written, opset=context.opset).apply(graph)
            (again,) = sites_of(graph)
            assert again.form == (spelling.form if form == "keep" else form), context
            assert not Rewrite((again,), form, written, opset=context.opset).apply(graph).modified, context
            assert rewritten.model is graph
            if context.expose or context.tail != "output":
                continue
            x = root(context.root, context.dtype, context.opset)
            wanted = gelu.FORMS[again.form].at(again.alpha)(x)
            got = evaluate(graph, context.dtype).astype(np.float64)
            assert (np.abs(got - wanted) <= allowed(context, graph, x)).all(), context


def allowed(context: Context, graph: ir.Model, x: np.ndarray) -> np.ndarray:
    """The table's bound for a site, element by element.

    In 16 bits the constants that are written are rounded too; in float64 onnx's reference evaluator itself is off by
    6e-8 in Erf, and Gelu's function body has float32 constants.
    """
    limit = parity.tolerance(context.dtype.numpy().name)
    rounding = limit.form if context.dtype in {F16, BF16} else 0.0
    if context.dtype == F64 and beyond_the_runtime(graph, F64):
        rounding = 1e-7
    return np.asarray(limit.site * np.maximum(1, np.abs(x)) + rounding)


@functools.cache
def root(name: str, dtype: ir.DataType, opset: int) -> np.ndarray:
    """What the GELU reads, in float64."""
    if name == "input":
        return INPUT.astype(dtype.numpy()).astype(np.float64)
    probe = ir.to_proto(model(ROOTS[name], shape=(2, 4, 8), opset=opset)).SerializeToString()
    return runtime.evaluate(probe, {"x": INPUT.astype(np.float32)}, optimise=False)["y"].astype(np.float64)


@pytest.mark.parametrize(("name", "formula"), NEGATIVES, ids=lambda case: case if isinstance(case, str) else None)
def test_negative(name: str, formula: Formula) -> None:
    for context in contexts():
        exact = name in {"0.999", "per channel", "wrong root", "loose constants", "loose torchscript constants"}
        if not valid(formula, context) or (exact and context.dtype != F32) or (name == "per channel" and context.rank):
            continue
        if name == "per channel" and (context.root in {"halves", "reshape"}):
            continue
        graph = built(formula, context)
        COUNTS["graphs"] += 1
        assert not sites_of(graph), (name, context)
        before = ir.to_proto(graph)
        assert not Rewrite((), opset=context.opset).apply(graph).modified
        assert ir.to_proto(graph) == before


def test_overridable_constants_are_left_alone() -> None:
    for spelling in POSITIVES:
        for opset in OPSETS:
            context = Context(home="overridable", opset=opset)
            graph = built(spelling.formula, context) if valid(spelling.formula, context) else None
            if graph is not None and len(graph.graph.inputs) > 1:
                COUNTS["graphs"] += 1
                assert not sites_of(graph), spelling.name


def test_two_dequantized_copies_are_one_root() -> None:
    def formula(x: Expression) -> Expression:
        first, second = quantized_twice(x)
        return (first * 0.5) * (1 + erf(second / R2))

    graph = model(formula)
    (site,) = sites_of(graph)
    assert site.source.producer() is not None
    Rewrite((site,)).apply(graph)
    assert Counter(n.op_type for n in graph.graph) == Counter(QuantizeLinear=1, DequantizeLinear=1, Gelu=1)


def test_quantized_inner_values_are_left_alone() -> None:
    def formula(x: Expression) -> Expression:
        gate = 1 + erf(x / R2)
        return (x * 0.5) * quantized_twice(gate)[0]

    assert not sites_of(model(formula))


def test_the_matrix_is_as_large_as_it_says(request: pytest.FixtureRequest) -> None:
    """Last in the file: the counts of what ran before, which the note of a release quotes."""
    thirds = sum("test_positive[" in item.name for item in request.session.items if item.path == request.path)
    if thirds % len(POSITIVES) or not thirds or not COUNTS["graphs"]:
        pytest.skip("only a part of the matrix was selected")
    share = thirds / len(POSITIVES) / 3
    assert COUNTS["graphs"] > 8000 * share, COUNTS
    assert COUNTS["evaluated by the runtime"] > 6000 * share, COUNTS
    assert COUNTS["evaluated by the reference"] > 600 * share, COUNTS

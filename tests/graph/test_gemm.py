"""MatMul and Add as Gemm: which become one, what lies between two of them, and that no answer changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, Formula, Number, model, op
from onnx import checker

from gelu_deploy import runtime
from gelu_deploy.graph.gemm import Gemms
from gelu_deploy.graph.scopes import MODULE, module_of
from gelu_deploy.parity import Limits, compare

RANDOM = np.random.default_rng(0)


def random(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


W, V, B, C = random(8, 16), random(16, 8), random(16), random(8)


def linear(x: Expression, weight: Any, bias: Expression | Number) -> Expression:
    product: Expression = op("MatMul", x, weight)
    return product + bias


def block(x: Expression) -> Expression:
    return linear(op("Gelu", linear(x, W, B)), V, C)


def read_twice(product: Expression) -> Expression:
    added: Expression = product + B
    return added * product


def answers(graph: ir.Model, sizes: Mapping[str, int]) -> dict[str, Any]:
    """What the graph makes of random inputs; it must be valid, too."""
    proto = ir.to_proto(graph)
    checker.check_model(proto, full_check=True)
    shapes = {
        v.name or "": [s if isinstance(s, int) else sizes[str(s)] for s in v.shape or ()] for v in graph.graph.inputs
    }
    feeds = {name: np.random.default_rng(1).standard_normal(shape).astype("f") for name, shape in shapes.items()}
    return runtime.evaluate(proto.SerializeToString(), feeds, optimise=False)


def written(graph: ir.Model, **sizes: int) -> ir.Model:
    """The graph after the pass, whose answers are the same and which a second pass leaves alone."""
    wanted = answers(graph, {"n": 3, "t": 5, **sizes})
    modified = Gemms().apply(graph).modified
    got = answers(graph, {"n": 3, "t": 5, **sizes})
    stage = compare("gemm", ((name, got[name], wanted[name]) for name in wanted), Limits())
    assert stage["passed"], stage
    as_it_is = ir.to_proto(graph)
    assert not Gemms().apply(graph).modified
    assert ir.to_proto(graph) == as_it_is
    assert modified == ("Gemm" in ops(graph))
    return graph


def ops(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph]


BACK = ["Shape", "Concat", "Reshape"]
SHAPES = [
    ((3, 8), ["Gemm", "Gelu", "Gemm"]),
    (("n", 8), ["Gemm", "Gelu", "Gemm"]),
    (("n", 5, 8), ["Reshape", "Gemm", "Gelu", "Gemm", "Reshape"]),
    ((2, "t", 8), ["Reshape", "Gemm", "Gelu", "Gemm", "Reshape"]),
    ((2, 3, 5, 8), ["Reshape", "Gemm", "Gelu", "Gemm", "Reshape"]),
    (("n", "t", 8), ["Reshape", "Gemm", "Gelu", "Gemm", *BACK]),
    (("n", 3, "t", 8), ["Reshape", "Gemm", "Gelu", "Gemm", *BACK]),
]


@pytest.mark.parametrize(("shape", "wanted"), SHAPES, ids=[str(shape) for shape, _ in SHAPES])
def test_a_feed_forward_block_is_two_gemms_with_a_gelu_between(shape: Any, wanted: list[str]) -> None:
    assert ops(written(model(block, shape=shape))) == wanted


@pytest.mark.parametrize("shape", [("n", 5, 8), ("n", "t", 8)])
def test_an_empty_batch_stays_one(shape: Any) -> None:
    written(model(block, shape=shape), n=0)


@pytest.mark.parametrize("shape", [shape for shape, _ in SHAPES])
def test_values_that_are_outputs_too_keep_their_names(shape: Any) -> None:
    graph = model(block, shape=shape)
    graph.graph.outputs.extend(node.outputs[0] for node in list(graph.graph) if node.op_type in {"Add", "Gelu"})
    shown = [value.name for value in graph.graph.outputs]
    assert ops(written(graph)).count("Gemm") == 2
    assert [value.name for value in graph.graph.outputs] == shown


def test_a_product_that_is_an_output_stays_one() -> None:
    assert ops(written(model(lambda x: linear(x, W, B), expose=True))) == ["MatMul", "Add"]


BIASES: list[tuple[str, Formula]] = [
    ("in front", lambda x: op("Add", Expression(x.writer.constant(B), x.writer), op("MatMul", x, W))),
    ("a row", lambda x: linear(x, W, B.reshape(1, 16))),
    ("a deep row", lambda x: linear(x, W, B.reshape(1, 1, 16))),
    ("a number", lambda x: linear(x, W, np.float32(0.5) * np.ones((), "f"))),
    ("one number", lambda x: linear(x, W, np.array([0.5], np.float32))),
]


@pytest.mark.parametrize(("name", "formula"), BIASES, ids=[name for name, _ in BIASES])
def test_every_way_to_write_a_bias_ends_as_a_vector(name: str, formula: Formula) -> None:
    graph = written(model(formula, shape=("n", 4, 8)))
    assert ops(graph) == ["Reshape", "Gemm", "Reshape"]
    bias = graph.graph[1].inputs[2]
    assert bias is not None
    assert bias.shape == (16,), name


KEPT: list[tuple[str, Any, Formula]] = [
    ("nothing is added", ("n", 4, 8), lambda x: op("MatMul", x, W)),
    ("positions are added", ("n", 4, 8), lambda x: linear(x, W, random(4, 16))),
    ("what is added has more axes", ("n", 8), lambda x: linear(x, W, random(1, 1, 16))),
    ("what is added makes it wider", ("n", 8), lambda x: linear(x, random(8, 1), B)),
    ("the product is read twice", ("n", 8), lambda x: read_twice(op("MatMul", x, W))),
    ("no constant matrix", (8, 8), lambda x: linear(x, x, C)),
    ("a matrix for each", (2, 4, 8), lambda x: linear(x, random(2, 8, 16), B)),
    ("a vector", (8,), lambda x: linear(x, W, B)),
    ("the matrix comes first", (16, 8), lambda x: op("MatMul", W, x) + C),
]


@pytest.mark.parametrize(("why", "shape", "formula"), KEPT, ids=[why for why, _, _ in KEPT])
def test_what_is_no_layer_stays(why: str, shape: Any, formula: Formula) -> None:
    graph = model(formula, shape=shape)
    before = ir.to_proto(graph)
    assert "Gemm" not in ops(written(graph)), why
    assert ir.to_proto(graph) == before


def attention(x: Expression) -> Expression:
    """Three projections of one input, in heads; a residual connection."""
    heads = np.array([0, 0, 2, 8])
    query, key, value = (
        op("Transpose", op("Reshape", linear(x, random(8, 16), B), heads), perm=[0, 2, 1, 3]) for _ in range(3)
    )
    scores = op("Softmax", op("MatMul", query, op("Transpose", key, perm=[0, 1, 3, 2])))
    mixed = op("Transpose", op("MatMul", scores, value), perm=[0, 2, 1, 3])
    return x + linear(op("Reshape", mixed, np.array([0, 0, 16])), V, C)


def test_projections_of_one_input_share_its_reshape_and_a_residual_stays_outside() -> None:
    graph = written(model(attention, shape=("n", 5, 8)))
    made = ops(graph)
    assert made.count("Gemm") == 4
    assert made.count("MatMul") == 2
    rows = {node.inputs[0] for node in graph.graph if node.op_type == "Gemm"}
    assert len(rows) == 2
    residual = next(node for node in graph.graph if node.op_type == "Add")
    assert [len(value.shape) for value in residual.inputs if value is not None and value.shape is not None] == [3, 3]


def test_a_reshape_right_behind_takes_the_place_of_ours() -> None:
    graph = written(model(lambda x: op("Reshape", linear(x, W, B), np.array([-1, 5, 2, 8])), shape=("n", 5, 8)))
    assert ops(graph) == ["Reshape", "Gemm", "Reshape"]


def test_the_halves_of_a_gate_are_multiplied_in_two_dimensions() -> None:
    gated = lambda x: linear(op("Gelu", linear(x, W, B)) * linear(x, W[:, ::-1].copy(), B), V, C)  # noqa: E731
    graph = written(model(gated, shape=("n", "t", 8)))
    assert ops(graph) == ["Reshape", "Gemm", "Gelu", "Gemm", "Mul", "Gemm", *BACK]


def test_what_an_exporter_reshaped_itself_is_recognised() -> None:
    def formula(x: Expression) -> Expression:
        up = op("Reshape", op("Gemm", op("Reshape", x, np.array([-1, 8])), W, B), np.array([-1, 5, 16]))
        return op("Reshape", op("Gemm", op("Reshape", op("Gelu", up), np.array([-1, 16])), V, C), np.array([-1, 5, 8]))

    graph = model(formula, shape=("n", 5, 8))
    assert ops(graph) == ["Reshape", "Gemm", "Reshape", "Gelu", "Reshape", "Gemm", "Reshape"]
    assert ops(written(graph)) == ["Reshape", "Gemm", "Gelu", "Gemm", "Reshape"]


def test_a_gemm_that_adds_one_row_adds_a_vector() -> None:
    graph = written(model(lambda x: op("Gemm", x, W, B.reshape(1, 16)), shape=("n", 8)))
    bias = graph.graph[0].inputs[2]
    assert bias is not None
    assert bias.shape == (16,)


def test_modules_go_with_the_layers() -> None:
    graph = model(block, shape=("n", "t", 8))
    for node, module in zip(graph.graph, ["up", "up", "act", "down", "down"], strict=True):
        node.metadata_props[MODULE] = module
    result = Gemms().apply(graph)
    assert result.notes == ("2 MatMul with Add written as Gemm",)
    assert [module_of(node) for node in graph.graph] == ["up", "up", "act", "down", "down", "down", "down"]


def test_one_of_sixteen_bits_is_written_too() -> None:
    graph = model(
        lambda x: linear(x, W.astype(np.float16), B.astype(np.float16)), shape=("n", 8), dtype=ir.DataType.FLOAT16
    )
    Gemms().apply(graph)
    assert ops(graph) == ["Gemm"]

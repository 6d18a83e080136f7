"""Convolutions that cut patches: which become a product, under which names, and that no answer changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, model, op
from onnx import checker

from gelu_deploy import runtime
from gelu_deploy.graph.patches import Patches
from gelu_deploy.graph.scopes import MODULE, module_of
from gelu_deploy.parity import Limits, compare

RANDOM = np.random.default_rng(0)
CUT = ["Reshape", "Transpose", "Reshape", "MatMul", "Add", "Transpose"]


def random(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def conv(shape: Any, kernel: Any, *, bias: bool = True, **attributes: Any) -> ir.Model:
    def formula(x: Expression) -> Expression:
        return op("Conv", x, kernel, *([random(len(kernel))] if bias else []), **attributes)

    return model(formula, shape=shape)


def ops(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph]


def answers(graph: ir.Model, n: int) -> Mapping[str, Any]:
    proto = ir.to_proto(graph)
    checker.check_model(proto, full_check=True)
    (x,) = graph.graph.inputs
    shape = [size if isinstance(size, int) else n for size in x.shape or ()]
    feeds = {x.name or "": np.random.default_rng(1).standard_normal(shape).astype("f")}
    return runtime.evaluate(proto.SerializeToString(), feeds, optimise=False)


def written(graph: ir.Model, n: int = 3) -> ir.Model:
    """The graph after the pass, whose answers are the same and which a second pass leaves alone."""
    wanted = answers(graph, n)
    assert Patches().apply(graph).modified
    got = answers(graph, n)
    assert list(got) == list(wanted)
    stage = compare("patches", ((name, got[name], wanted[name]) for name in wanted), Limits())
    assert stage["passed"], stage
    assert not Patches().apply(graph).modified
    return graph


FOUND: list[tuple[str, Any, tuple[int, ...], dict[str, Any]]] = [
    ("an image", (2, 3, 8, 8), (5, 3, 4, 4), {"strides": [4, 4]}),
    ("any batch", ("n", 3, 8, 12), (5, 3, 4, 4), {"strides": [4, 4]}),
    ("another height than width", ("n", 3, 8, 12), (5, 3, 2, 4), {"strides": [2, 4]}),
    ("a kernel that is a line", ("n", 3, 8, 12), (5, 3, 1, 4), {"strides": [1, 4]}),
    ("all of it", ("n", 3, 8, 8), (5, 3, 8, 8), {"strides": [8, 8]}),
    ("a signal", ("n", 3, 8), (5, 3, 4), {"strides": [4]}),
    ("a film", ("n", 3, 4, 8, 8), (5, 3, 2, 4, 4), {"strides": [2, 4, 4]}),
    ("everything spelled out", ("n", 3, 8, 8), (5, 3, 4, 4), {"strides": [4, 4], "pads": [0] * 4, "dilations": [1, 1]}),
    (
        "padded until it fits, which it does",
        ("n", 3, 8, 8),
        (5, 3, 4, 4),
        {"strides": [4, 4], "auto_pad": "SAME_UPPER"},
    ),
]


@pytest.mark.parametrize(("shape", "kernel", "attributes"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_patches_are_rows_of_a_product(shape: Any, kernel: Any, attributes: Any) -> None:
    assert ops(written(conv(shape, random(*kernel), **attributes))) == CUT


def test_without_a_bias_nothing_is_added() -> None:
    graph = written(conv(("n", 3, 8, 8), random(5, 3, 4, 4), bias=False, strides=[4, 4]))
    assert ops(graph) == [name for name in CUT if name != "Add"]


def test_an_empty_batch_stays_one() -> None:
    written(conv(("n", 3, 8, 8), random(5, 3, 4, 4), strides=[4, 4]), n=0)


def test_its_value_and_its_module_keep_their_names() -> None:
    graph = conv(("n", 3, 8, 8), random(5, 3, 4, 4), strides=[4, 4])
    graph.graph[0].metadata_props[MODULE] = "embeddings.patches"
    made = graph.graph[0].outputs[0].name
    assert {module_of(node) for node in written(graph).graph} == {"embeddings.patches"}
    assert graph.graph[-1].outputs[0].name == made


def test_two_of_one_weight() -> None:
    kernel = random(3, 3, 2, 2)
    graph = model(
        lambda x: op("Conv", op("Conv", x, kernel, strides=[2, 2]), kernel, strides=[2, 2]), shape=("n", 3, 8, 8)
    )
    graph.graph[0].outputs[0].shape = ir.Shape(["n", 3, 4, 4])
    assert ops(written(graph)).count("MatMul") == 2


KEPT: list[tuple[str, Any, tuple[int, ...], dict[str, Any]]] = [
    ("a step shorter than the kernel", ("n", 3, 8, 8), (5, 3, 4, 4), {"strides": [2, 2]}),
    ("no step", ("n", 3, 8, 8), (5, 3, 4, 4), {}),
    ("a step longer than the kernel", ("n", 3, 8, 8), (5, 3, 2, 2), {"strides": [4, 4]}),
    ("one pixel", ("n", 3, 8, 8), (5, 3, 1, 1), {"strides": [1, 1]}),
    ("a rest that no patch takes", ("n", 3, 9, 8), (5, 3, 4, 4), {"strides": [4, 4]}),
    ("something around the input", ("n", 3, 8, 8), (5, 3, 4, 4), {"strides": [4, 4], "pads": [0, 0, 4, 4]}),
    ("holes in the kernel", ("n", 3, 8, 8), (5, 3, 2, 2), {"strides": [2, 2], "dilations": [2, 2]}),
    ("channels in groups", ("n", 3, 8, 8), (6, 1, 4, 4), {"strides": [4, 4], "group": 3}),
    ("a free height", ("n", 3, "h", 8), (5, 3, 4, 4), {"strides": [4, 4]}),
]


@pytest.mark.parametrize(("shape", "kernel", "attributes"), [row[1:] for row in KEPT], ids=[row[0] for row in KEPT])
def test_every_other_convolution_stays(shape: Any, kernel: Any, attributes: Any) -> None:
    graph = conv(shape, random(*kernel), **attributes)
    assert not Patches().apply(graph).modified
    assert ops(graph) == ["Conv"]


def test_a_kernel_that_is_computed_stays() -> None:
    graph = model(lambda x: op("Conv", x, x, strides=[4, 4]), shape=(3, 3, 4, 4))
    assert not Patches().apply(graph).modified

"""Any spelling written as any other: structure, values at the extremes, and the claimed ``modified``."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphs import Expression, erf, model, op
from spellings import POSITIVES, R2, Spelling

from gelu_deploy import gelu, runtime
from gelu_deploy.errors import UsageError
from gelu_deploy.graph import hollow
from gelu_deploy.graph.kernels import KernelIndex
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite

EXTREMES = np.array(
    [-np.inf, -1e4, -40, -12, -6, -1, -1e-30, -1e-40, -0.0, 0.0, 1e-40, 1e-30, 1, 6, 12, 40, 1e4, np.inf], np.float32
)
GRID = np.concatenate([EXTREMES, np.linspace(-8, 8, 2029, dtype=np.float32)])

OPERATORS = {
    ("erf", "ops"): Counter(Mul=2, Div=1, Erf=1, Add=1),
    ("erf", "gelu"): Counter(Gelu=1),
    ("erf", "contrib"): Counter(Gelu=1),
    ("tanh", "ops"): Counter(Mul=4, Pow=1, Add=2, Tanh=1),
    ("tanh", "gelu"): Counter(Gelu=1),
    ("tanh", "contrib"): Counter(FastGelu=1),
    ("sigmoid", "ops"): Counter(Mul=2, Sigmoid=1),
    ("sigmoid", "contrib"): Counter(QuickGelu=1),
}


def rewritten(graph: ir.Model, form: str, spelling: str) -> bool:
    result = Rewrite(find(graph).sites, form, spelling, opset=graph.opset_imports[""]).apply(graph)
    assert result.model is graph
    return result.modified


def answers(graph: ir.Model, x: np.ndarray, *, optimise: bool) -> np.ndarray:
    onnx.checker.check_model(ir.to_proto(graph), full_check=True)
    run = runtime.Evaluation(ir.to_proto(graph).SerializeToString(), {}, optimise=optimise, provider="cpu")
    return run({"x": x})["y"]


@pytest.mark.parametrize("target", OPERATORS, ids="-".join)
@pytest.mark.parametrize("spelling", POSITIVES, ids=lambda s: s.name)
def test_any_spelling_becomes_any_other(spelling: Spelling, target: tuple[str, str]) -> None:
    form, written = target
    graph = model(spelling.formula, shape=("n",))
    rewritten(graph, form, written)
    assert Counter(node.op_type for node in graph.graph) == OPERATORS[target]
    (site,) = find(graph).sites
    assert (site.form, site.spelling, site.source.name, site.output.name) == (form, written, "x", "y")
    assert not rewritten(graph, form, written)

    finite = np.isfinite(GRID)
    got, x = answers(graph, GRID, optimise=False).astype(np.float64), GRID[finite]
    gap = np.abs(got[finite] - gelu.FORMS[form].at(site.alpha)(x))
    assert (gap <= 2e-6 * np.maximum(1, np.abs(x))).all()
    assert got[np.isposinf(GRID)] == np.inf


@pytest.mark.parametrize("spelling", POSITIVES, ids=lambda s: s.name)
def test_keep_with_every_inner_value_exposed(spelling: Spelling) -> None:
    graph = model(spelling.formula, shape=("n",), expose=True)
    names = [value.name for value in graph.graph.outputs]
    x = np.linspace(-8, 8, 2047, dtype=np.float32)
    before = runtime.evaluate(ir.to_proto(graph).SerializeToString(), {"x": x}, optimise=False, provider="cpu")
    rewritten(graph, "keep", "auto")
    assert [value.name for value in graph.graph.outputs] == names
    onnx.checker.check_model(ir.to_proto(graph), full_check=True)
    after = runtime.evaluate(ir.to_proto(graph).SerializeToString(), {"x": x}, optimise=False, provider="cpu")
    for name in names:
        np.testing.assert_allclose(after[str(name)], before[str(name)], rtol=0, atol=5e-5)


@pytest.mark.parametrize("opset", [13, 17, 18, 20, 23])
@pytest.mark.parametrize("form", ["erf", "tanh", "sigmoid"])
def test_what_is_written_becomes_one_kernel(form: str, opset: int) -> None:
    """Behind a MatMul and a bias, before another MatMul: where a GELU stands in a network."""
    weight, bias = np.eye(8, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32)

    def block(x: Expression) -> Expression:
        hidden = op("Add", op("MatMul", x, weight), bias)
        return op("MatMul", hidden * (0.5 * (1 + erf(hidden / R2))), weight)

    graph = model(block, opset=opset)
    rewritten(graph, form, "auto")
    (site,) = find(graph).sites
    index = KernelIndex(runtime.optimised(ir.to_proto(graph).SerializeToString(), "cpu"))
    assert len(index.of(site.source.name or "", site.output.name or "").ops) == 1


def test_spellings_that_do_not_exist_are_refused_before_anything_changes() -> None:
    graph = model(lambda x: 0.5 * x * (1 + erf(x / R2)), opset=17)
    before = ir.to_proto(graph)
    with pytest.raises(UsageError, match="needs opset 20"):
        rewritten(graph, "keep", "gelu")
    with pytest.raises(UsageError, match="the sigmoid form has none"):
        rewritten(graph, "sigmoid", "gelu")
    assert ir.to_proto(graph) == before


def test_excluded_modules_are_left_as_they_are() -> None:
    graph = model(lambda x: x * (0.5 * (1 + erf(x / R2))))
    for node in graph.graph:
        node.metadata_props["gelu_deploy.module"] = "blocks.0.act"
    before = ir.to_proto(graph)
    assert not Rewrite(find(graph).sites, "tanh", exclude=("blocks.0.*",)).apply(graph).modified
    assert ir.to_proto(graph) == before
    assert Rewrite(find(graph).sites, "tanh", exclude=("blocks.1.*",)).apply(graph).modified
    assert {node.metadata_props["gelu_deploy.module"] for node in graph.graph} == {"blocks.0.act"}


def test_single_sites_may_be_written_in_their_own_way() -> None:
    graph = model(lambda x: op("Gelu", -op("Gelu", -op("Gelu", x))))
    first, second, third = find(graph).sites
    choices = {first.output.name or "": ("tanh", "auto"), second.output.name or "": ("keep", "contrib")}
    writer = Rewrite((first, second, third), spelling="ops", choices=choices)
    assert [(plan.form, plan.spelling) for plan in map(writer.plan, writer.sites)] == [
        ("tanh", "gelu"),
        ("erf", "contrib"),
        ("erf", "ops"),
    ]
    assert writer.apply(graph).modified
    assert [(site.form, site.spelling) for site in find(graph).sites] == [
        ("tanh", "gelu"),
        ("erf", "contrib"),
        ("erf", "ops"),
    ]


def test_an_excluded_site_is_left_whatever_was_chosen_for_it() -> None:
    graph = model(lambda x: op("Gelu", x))
    (site,) = find(graph).sites
    assert Rewrite((site,), exclude=("*",), choices={site.output.name or "": ("tanh", "ops")}).plan(site).kept


def test_fused_bias_is_written_as_an_addition() -> None:
    bias = np.linspace(-1, 1, 8, dtype=np.float32)
    graph = model(lambda x: op("FastGelu", x, bias, domain="com.microsoft"))
    rewritten(graph, "keep", "ops")
    assert Counter(node.op_type for node in graph.graph) == OPERATORS["tanh", "ops"] + Counter(Add=1)
    x = np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float32)
    np.testing.assert_allclose(answers(graph, x, optimise=True), gelu.tanh_form(x + bias), atol=2e-6)


def test_weights_held_out_and_put_back_are_the_same_objects() -> None:
    weight = np.ones((8, 512), np.float32)
    graph = model(lambda x: op("Gelu", op("MatMul", x, weight)))
    before = {name: value.const_value for name, value in graph.graph.initializers.items()}
    held = hollow.hold(graph)
    assert len(held.names) == 1
    assert not graph.graph.initializers
    hollow.put_back(graph, held)
    after = {name: value.const_value for name, value in graph.graph.initializers.items()}
    assert {name: id(tensor) for name, tensor in after.items()} == {name: id(t) for name, t in before.items()}
    assert [value.name for value in graph.graph.inputs] == ["x"]

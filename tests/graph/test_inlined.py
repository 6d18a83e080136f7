"""Functions written out on a copy: every call of a site is found, under a name that the runtime keeps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from gelu_deploy import gelu, proof, runtime, sites
from gelu_deploy.artifact.golden import Case
from gelu_deploy.graph.inlined import Ends, inlined
from gelu_deploy.graph.kernels import UNKNOWN
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite

INNER = """<domain: "test", opset_import: ["": 20]> Inner (x) => (y) {
  k = Constant<value_float=0.5>() r = Constant<value_float=1.4142135>() one = Constant<value_float=1.0>()
  h = Mul(x, k) d = Div(x, r) e = Erf(d) g = Add(e, one) y = Mul(h, g)
}"""
BENT = """<domain: "test", opset_import: ["": 20]> Bent (x) => (y) {
  k = Constant<value_float=0.5>() n = Constant<value_float=3.0>() c = Constant<value_float=0.044715>()
  r = Constant<value_float=0.7978846>() one = Constant<value_float=1.0>()
  h = Mul(x, k) q = Pow(x, n) b = Mul(q, c) s = Add(x, b) z = Mul(s, r) t = Tanh(z) g = Add(t, one) y = Mul(h, g)
}"""
OUTER = '<domain: "test", opset_import: ["": 20, "test": 1]> Outer (x) => (y) { h = test.Inner(x) y = Neg(h) }'
OPEN = '<domain: "test", opset_import: ["": 20]> Open (x) => (y) { g = Gelu(x) y = Neg(g) }'


def graph(body: str, *functions: str, opset: int = 20) -> ir.Model:
    head = f'<ir_version: 10, opset_import: ["": {opset}, "test": 1]> g (float[N, 8] x, bool c) => (float[N, 8] y)'
    return ir.from_proto(parser.parse_model("\n".join([f"{head} {{ {body} }}", *functions])))


CALLED_FOUR_TIMES = """
  a = test.Outer(x)
  b = test.Inner(a)
  z = If(c) <
    then_branch = t () => (float[N, 8] p) { q = test.Inner(b) p = Neg(q) },
    else_branch = e () => (float[N, 8] s) { s = Identity(b) }
  >
  w = test.Inner(z)
  y = test.Open(w)
"""


def test_each_call_is_one_copy_and_the_model_stays_as_it_was() -> None:
    model = graph(CALLED_FOUR_TIMES, INNER, OUTER, OPEN)
    before = ir.to_proto(model)
    flat = inlined(model)
    assert ir.to_proto(model) == before
    assert not flat.model.functions
    assert flat.ends(Ends("x", "y"), "test::Inner") == [
        Ends("x", "test::Outer/h"),
        Ends("a", "b"),
        Ends("z", "w"),
        Ends("b", "q"),
    ]
    assert flat.ends(Ends("x", "g"), "test::Open") == [Ends("w", "test::Open/g")]
    assert flat.ends(Ends("x", "b")) == (Ends("x", "b"),)


def test_the_copy_computes_the_same_and_becomes_the_same_kernels() -> None:
    model = graph(CALLED_FOUR_TIMES, INNER, OUTER, OPEN)
    feeds = {"x": np.linspace(-4, 4, 16, dtype=np.float32).reshape(2, 8), "c": np.array(True)}
    flat = inlined(model).model
    for optimise in (False, True):
        wanted = runtime.evaluate(model, feeds, optimise=optimise)["y"]
        np.testing.assert_array_equal(runtime.evaluate(flat, feeds, optimise=optimise)["y"], wanted)

    def kernels(one: ir.Model) -> Counter[str]:
        return Counter(node.op_type for node in runtime.optimised(one).graph.all_nodes())

    assert kernels(flat) == kernels(model)
    assert kernels(flat)["Gelu"] == 5


@pytest.mark.parametrize("spelling", ["ops", "contrib"])
def test_every_call_became_one_kernel_before_and_after_rewriting(spelling: str) -> None:
    model = graph(CALLED_FOUR_TIMES, INNER, OUTER, OPEN)
    assert Rewrite(find(model).sites, spelling=spelling).apply(model).modified
    index = sites.kernels(model, "cpu")
    rows = [sites.row(site, index) for site in find(model).sites]
    assert sorted(row.get("function", "") for row in rows) == ["test::Inner", "test::Open"]
    assert [(row["kernels"], row["reason"]) for row in rows] == [(["Gelu"], "")] * 2


def test_calls_that_became_different_kernels_are_counted() -> None:
    """The runtime leaves a tanh GELU open whose result is an output of the graph."""
    model = graph("a = test.Bent(x) b = Neg(a) c1 = test.Bent(b) d = Neg(c1) y = test.Bent(d)", BENT)
    (site,) = find(model).sites
    row = sites.row(site, sites.kernels(model, "cpu"))
    assert "Tanh" in row["kernels"]
    assert len(row["kernels"]) > 1
    assert row["reason"].endswith(", in 1 of 3 calls")
    again = sites.renewed([row], sites.kernels(model, "cpu"))
    assert again[0]["reason"].endswith(", in 1 of 3 calls")


def test_a_name_of_the_graph_is_not_taken_for_the_function_s() -> None:
    """The graph's y is no GELU, the function's is; both are measured as what they are."""
    model = graph("h = test.Inner(x) y = Neg(h)", INNER)
    (site,) = find(model).sites
    row = sites.row(site, sites.kernels(model, "cpu"))
    assert (row["input"], row["output"], row.get("function")) == ("x", "y", "test::Inner")
    x = np.linspace(-6, 6, 16, dtype=np.float32).reshape(2, 8)
    case = Case({"x": x, "c": np.array(True)}, {})
    assert proof.site_parity(model, {}, [row], [case], "cpu")["passed"]
    np.testing.assert_allclose(
        -runtime.evaluate(model, case.inputs, optimise=True)["y"], gelu.erf_form(x.astype(np.float64)), atol=1e-6
    )


def test_a_function_that_is_never_called_has_no_kernels() -> None:
    model = graph("y = Neg(x)", INNER)
    (site,) = find(model).sites
    row = sites.row(site, sites.kernels(model, "cpu"))
    assert (row["kernels"], row["reason"]) == ([], UNKNOWN)
    assert len(proof.unseen(model, [row])) == 1


def test_functions_that_cannot_be_written_out_are_left() -> None:
    model = graph("y = test.Inner(x)", INNER, opset=21)
    flat = inlined(model)
    assert flat.model is model
    assert flat.ends(Ends("x", "y"), "test::Inner") == ()


def test_without_functions_nothing_is_copied() -> None:
    model = graph("y = Gelu(x)")
    assert inlined(model).model is model

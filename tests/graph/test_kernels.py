"""What a site became, read from graphs as the runtime writes them and from real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, model, op
from onnx import parser

from gelu_deploy import runtime
from gelu_deploy.graph.kernels import LOST, KernelIndex, Kernels
from gelu_deploy.graph.recognize import find


def of(body: str, source: str = "x", output: str = "y") -> Kernels:
    head = '<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]> g (float[N, 4] x) => (float[N, 4] z)'
    return KernelIndex(ir.from_proto(parser.parse_model(f"{head} {{ {body} }}"))).of(source, output)


@pytest.mark.parametrize("name", ["Gelu", "FastGelu", "QuickGelu"])
def test_a_fused_kernel_is_one(name: str) -> None:
    assert of(f"y = com.microsoft.{name}(x) z = Neg(y)") == Kernels((name,), "")


def test_one_that_took_in_the_bias_ends_the_search() -> None:
    assert of("a = MatMul(x, x) y = com.microsoft.BiasGelu(a, x) z = Neg(y)", "b") == Kernels(("BiasGelu",), "")


def test_operators_between_are_listed_in_order_back_to_the_source() -> None:
    found = of("s = MatMul(x, x) e = Erf(s) m = Mul(e, s) y = Add(m, s) z = Neg(y)", "s")
    assert found.ops == ("Erf", "Mul", "Add")
    assert found.reason == "the runtime left 3 operators"


def test_the_search_stops_at_products_when_the_source_is_gone() -> None:
    assert of("s = MatMul(x, x) e = Erf(s) y = Mul(e, s) z = Neg(y)", "gone").ops == ("Erf", "Mul")


def test_a_value_that_is_gone_is_said_to_be_lost() -> None:
    assert of("z = Neg(x)") == Kernels((), LOST)


def test_a_site_inside_a_branch_is_found() -> None:
    then = "<then_branch = t () => (float[N, 4] p) { y = Gelu(x) p = Neg(y) },"
    other = "else_branch = e () => (float[N, 4] q) { q = Identity(x) }>"
    assert of(f"i = IsNaN(x) r = Cast<to=9>(x) z = If(r) {then} {other}").ops == ("Gelu",)


def block(x: Expression) -> Expression:
    weight = np.eye(8, dtype=x.writer.dtype.numpy())
    return op("MatMul", op("Gelu", op("MatMul", x, weight), approximate="tanh"), weight)


def real(formula: Any, dtype: ir.DataType = ir.DataType.FLOAT) -> Kernels:
    graph = model(formula, shape=("n", 8), dtype=dtype)
    (site,) = find(graph).sites
    return KernelIndex(runtime.optimised(graph)).of(site.source.name or "", site.output.name or "")


def test_float32_in_the_runtime_is_one_kernel() -> None:
    assert real(block) == Kernels(("Gelu",), "")


def test_sixteen_bits_computed_in_float32_are_not_lost() -> None:
    found = real(block, ir.DataType.FLOAT16)
    assert "Tanh" in found.ops
    assert "Cast" not in found.ops
    assert found.reason == f"the runtime left {len(found.ops)} operators"

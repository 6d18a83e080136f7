"""Why a GELU is not one kernel: each cause as the runtime of today has it, and the reason that is given."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, Formula, Place, erf, model, op, tanh
from spellings import R2, K, S

from gelu_deploy import sites
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite

WEIGHT = np.eye(8, dtype=np.float32)


def half_first(x: Expression) -> Expression:
    return (x * 0.5) * (1 + erf(x / R2))


def bent(x: Expression) -> Expression:
    return (x * 0.5) * (1 + tanh(S * (x + K * x**3.0)))


def inside(formula: Formula) -> Formula:
    return lambda x: op("MatMul", formula(op("MatMul", x, WEIGHT)), WEIGHT)


def reason(graph: ir.Model) -> str:
    (site,) = find(graph).sites
    row = sites.row(site, sites.kernels(graph, "cpu"))
    assert (len(row["kernels"]) == 1) == (row["reason"] == ""), row
    return row["reason"]


@pytest.mark.parametrize("formula", [half_first, bent])
def test_what_the_runtime_fuses_has_no_reason(formula: Formula) -> None:
    assert reason(model(inside(formula), opset=17)) == ""


def test_order() -> None:
    graph = model(inside(lambda x: x * (0.5 * (1 + erf(x / R2)))), opset=17)
    assert "does not know this order" in reason(graph)
    Rewrite(find(graph).sites, opset=17).apply(graph)
    assert reason(graph) == ""


def test_rank() -> None:
    assert "constants have 3 axes" in reason(model(inside(half_first), opset=17, rank=3))


def test_inner_value_is_an_output() -> None:
    assert "is an output of the graph" in reason(model(half_first, opset=17, expose=True))


def test_inner_value_has_another_reader() -> None:
    def shared(x: Expression) -> Expression:
        gate = 1 + erf(x / R2)
        return op("MatMul", ((x * 0.5) * gate) + op("Cos", gate), WEIGHT)

    assert "has another reader" in reason(model(shared, opset=17))


def test_tanh_as_the_output_of_the_graph() -> None:
    assert "--spelling contrib" in reason(model(bent, opset=17))


def test_type_without_a_kernel() -> None:
    assert "no float16 kernel" in reason(model(half_first, opset=17, dtype=ir.DataType.FLOAT16))


@pytest.mark.parametrize("place", ["function", "nested"])
def test_inside_a_function_it_is_what_it_would_be_outside(place: Place) -> None:
    assert reason(model(half_first, opset=17, place=place, home="constant")) == ""
    assert "does not know this order" in reason(
        model(lambda x: x * (0.5 * (1 + erf(x / R2))), opset=17, place=place, home="constant")
    )


def test_dequantized_input() -> None:
    def formula(x: Expression) -> Expression:
        q = op("QuantizeLinear", x, np.array(0.05, np.float32), np.array(128, np.uint8))
        y = half_first(op("DequantizeLinear", q, np.array(0.05, np.float32), np.array(128, np.uint8)))
        return op("MatMul", y, WEIGHT)

    assert "is dequantized" in reason(model(formula, opset=17))


def test_half_of_the_input_computed_elsewhere_never_reaches_the_runtime() -> None:
    """The runtime merges the two halves, its tanh fusion deletes one too many, and the session does not load."""
    graph = model(lambda x: op("MatMul", bent(x) + x * 0.5, WEIGHT), opset=17)
    Rewrite(find(graph).sites, opset=17).apply(graph)
    assert find(graph).sites[0].form == "tanh"
    assert sites.kernels(graph, "cpu") is not None

"""Multiples of GELU: what is left when a tool has moved the trailing ½ into the next weights."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import real_models
from graphs import Expression, Formula, erf, model, op, tanh
from spellings import R2, K, S

import gelu_deploy
from gelu_deploy import runtime
from gelu_deploy.graph.mend import mend
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite

X = np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float32) * 3
WEIGHT = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)


def twice(x: Expression) -> Expression:
    return x * (1 + erf(x / R2))


def answers(graph: ir.Model) -> Any:
    onnx.checker.check_model(ir.to_proto(graph), full_check=True)
    return runtime.evaluate(graph, {"x": X}, optimise=False)["y"]


def rewritten(graph: ir.Model) -> Counter[str]:
    assert Rewrite(find(graph).sites, opset=graph.opset_imports[""]).apply(graph).modified
    return Counter(node.op_type for node in graph.graph)


@pytest.mark.parametrize("scale", [2.0, 0.125, 3.0, -1.0])
def test_any_factor_is_found_and_written_as_a_product(scale: float) -> None:
    formulas: list[Formula] = [
        lambda x: x * (scale / 2 * (1 + erf(x / R2))),
        lambda x: (scale / 2 * x) * (1 + tanh(S * (x + K * x**3.0))),
    ]
    for formula in formulas:
        graph = model(formula, shape=(2, 4, 8))
        (site,) = find(graph).sites
        assert site.scale == pytest.approx(scale)
        before = answers(graph)
        assert rewritten(graph) == Counter(Gelu=1, Mul=1)
        np.testing.assert_allclose(answers(graph), before, atol=3e-6 * abs(scale))
        assert [again.scale for again in find(graph).sites] == [1.0]


def test_a_factor_goes_back_into_the_next_weights() -> None:
    graph = model(lambda x: op("MatMul", op("Reshape", twice(x), np.array([-1, 8])), WEIGHT), shape=(2, 4, 8))
    before = answers(graph)
    assert rewritten(graph) == Counter(Gelu=1, Reshape=1, MatMul=1)
    (weight,) = (v.const_value for v in graph.graph.initializers.values() if v.const_value and v.const_value.size == 64)
    assert weight is not None
    np.testing.assert_array_equal(weight.numpy(), 2 * WEIGHT)
    np.testing.assert_allclose(answers(graph), before, atol=2e-5)


def test_weights_that_something_else_reads_stay_as_they_are() -> None:
    def formula(x: Expression) -> Expression:
        product = op("MatMul", twice(x), WEIGHT)
        return product + op("MatMul", x, Expression(product.value.producer().inputs[1], x.writer))  # type: ignore[union-attr, arg-type]

    graph = model(formula, shape=(2, 4, 8))
    before = answers(graph)
    assert rewritten(graph)["Mul"] == 1
    np.testing.assert_allclose(answers(graph), before, atol=2e-5)


def test_a_tap_on_twice_gelu_is_no_second_site() -> None:
    graph = model(lambda x: 0.5 * (x * (1 + erf(x / R2))), expose=True, shape=(2, 4, 8))
    assert [site.output.name for site in find(graph).sites] == ["y"]


def test_weights_in_the_pipeline_are_scaled_too(tmp_path: Path) -> None:
    wide = np.random.default_rng(2).standard_normal((8, 1024)).astype(np.float32)
    graph = model(lambda x: op("MatMul", twice(x), wide), shape=("n", 4, 8))
    ir.save(graph, tmp_path / "in.onnx")
    result = gelu_deploy.export(str(tmp_path / "in.onnx"), output=str(tmp_path / "out.onnx"))
    assert result["verdict"] == "pass", result["reason"]
    assert result["sites"][0]["kernels"] == ["Gelu"]
    assert Counter(node.op_type for node in ir.load(tmp_path / "out.onnx").graph) == Counter(Gelu=1, MatMul=1)


@pytest.mark.parametrize("name", ["rec", "det"])
def test_ppocr_after_the_simplifier_has_its_gelus_back(name: Any, tmp_path: Path) -> None:
    import onnxsim

    spoilt, _ = onnxsim.simplify(onnx.load(real_models.ppocr(name)))
    onnx.save(spoilt, tmp_path / "in.onnx")
    before = gelu_deploy.inspect(str(tmp_path / "in.onnx"))
    assert [site.get("scale") for site in before["sites"]] == [2.0] * 13
    assert all(len(site["kernels"]) != 1 for site in before["sites"])
    result = gelu_deploy.export(str(tmp_path / "in.onnx"), output=str(tmp_path / "out.onnx"))
    assert result["verdict"] == "pass", result["reason"]
    assert [len(site["kernels"]) for site in result["sites"]] == [1] * 13


def test_gelu_below_opset_20_is_read_as_it_was_meant(tmp_path: Path) -> None:
    graph = model(lambda x: op("MatMul", op("Gelu", x, approximate="tanh"), WEIGHT), shape=(2, 4, 8), opset=20)
    wanted = answers(graph)
    graph.opset_imports[""] = 17
    assert any("opset 17" in note for note in mend(graph))
    np.testing.assert_allclose(answers(graph), wanted, atol=2e-5)
    graph = model(lambda x: op("Gelu", x), shape=(2, 4, 8), opset=20)
    graph.opset_imports[""] = 17
    ir.save(graph, tmp_path / "in.onnx")
    assert any("opset 17" in note for note in gelu_deploy.inspect(str(tmp_path / "in.onnx"))["notes"])
    result = gelu_deploy.export(str(tmp_path / "in.onnx"), output=str(tmp_path / "out.onnx"), opset=20)
    assert (result["verdict"], result["sites"][0]["kernels"]) == ("pass", ["Gelu"])


def test_a_missing_import_is_added() -> None:
    graph = model(lambda x: op("FastGelu", x, domain="com.microsoft"), shape=(2, 4, 8))
    del graph.opset_imports["com.microsoft"]
    assert len(mend(graph)) == 1
    onnx.checker.check_model(ir.to_proto(graph))
    assert mend(graph) == []

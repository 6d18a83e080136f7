"""Sixteen bits: no overflow, no NaN, constants that the type holds, float32 between Casts when asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphs import erf, model
from spellings import R2

from gelu_deploy import gelu
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite

KINDS = {ir.DataType.FLOAT16: np.dtype(np.float16), ir.DataType.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}
FORMS = ["erf", "tanh", "sigmoid", "refit3", "refit5", "igelu"]


def written(form: str, dtype: ir.DataType, *, fp16_safe: bool = False) -> ir.Model:
    graph = model(lambda x: 0.5 * x * (1 + erf(x / R2)), dtype=dtype, opset=17, shape=("n",))
    Rewrite(find(graph).sites, form, "ops", opset=17, fp16_safe=fp16_safe).apply(graph)
    onnx.checker.check_model(ir.to_proto(graph), full_check=True)
    return graph


def every(kind: np.dtype[Any]) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        values = np.arange(1 << 16, dtype=np.uint16).view(kind)
        return values[np.isfinite(values.astype(np.float32))]


def in_its_own_type(graph: ir.Model, x: np.ndarray) -> np.ndarray:
    """Each operator rounded to the type, Tanh and Sigmoid through exp as simple kernels do it."""
    kind, values = x.dtype, {"x": x}
    for name, value in graph.graph.initializers.items():
        assert value.const_value is not None
        values[name] = value.const_value.numpy()
    with np.errstate(all="ignore"):
        for node in graph.graph:
            a = [values[str(v.name)].astype(np.float32) for v in node.inputs if v is not None]
            values[str(node.outputs[0].name)] = np.asarray(_operator(node.op_type, a, kind)).astype(kind)
    return values["y"].astype(np.float64)


def _operator(op: str, a: list[np.ndarray], kind: np.dtype[Any]) -> np.ndarray:
    if op == "Sigmoid":
        grown = np.exp(-a[0]).astype(kind).astype(np.float32)
        return np.asarray(1 / (1 + grown).astype(kind).astype(np.float32))
    table = {"Add": np.add, "Mul": np.multiply, "Div": np.divide, "Min": np.minimum, "Max": np.maximum}
    if op in table:
        return np.asarray(table[op](*a))
    if op == "Erf":
        x = a[0].astype(np.float64)
        return np.asarray(2 * gelu.cdf(x * R2) - 1)
    return np.asarray({"Abs": np.abs, "Sign": np.sign}[op](a[0]))


@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: d.name)
@pytest.mark.parametrize("form", FORMS)
def test_every_finite_value_gives_a_finite_answer_near_the_form(form: str, dtype: ir.DataType) -> None:
    x = every(KINDS[dtype])
    got = in_its_own_type(written(form, dtype), x)
    wanted = gelu.FORMS[form].reference(x.astype(np.float64))
    assert np.isfinite(got).all()
    limit = 4 * float(ml_dtypes.finfo(KINDS[dtype]).eps)  # type: ignore[no-untyped-call]  # theirs
    assert (np.abs(got - wanted) <= limit * np.maximum(1, np.abs(wanted)) + 1e-3).all()


@pytest.mark.parametrize("form", ["erf", "tanh"])
def test_bfloat16_constants_keep_the_form_within_a_thousandth_of_gelu(form: str) -> None:
    (site,) = find(written(form, ir.DataType.BFLOAT16)).sites
    assert site.form == form
    assert site.error + gelu.FORMS[form].bound < 1e-3


@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: d.name)
def test_float32_between_casts(dtype: ir.DataType) -> None:
    graph = written("tanh", dtype, fp16_safe=True)
    assert Counter(node.op_type for node in graph.graph)["Cast"] == 2
    inner = [node.outputs[0].dtype for node in graph.graph if node.outputs[0].name != "y"]
    assert set(inner) == {ir.DataType.FLOAT}
    assert graph.graph.outputs[0].dtype == dtype
    (site,) = find(graph).sites
    assert site.form == "tanh"

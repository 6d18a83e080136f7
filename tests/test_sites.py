"""Sites as rows: found, written, renewed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from graphs import Expression, erf, model, op, sigmoid, tanh
from spellings import R2

from gelu_deploy import sites
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite
from gelu_deploy.graph.scopes import MODULE

WEIGHT = np.eye(8, dtype=np.float32)


def two(x: Expression) -> Expression:
    """An erf GELU in the middle, a sigmoid one at the end, and a SiLU."""
    hidden = op("MatMul", x, WEIGHT)
    first = op("MatMul", 0.5 * hidden * (1 + erf(hidden / R2)), WEIGHT)
    silu = op("MatMul", first * sigmoid(first), WEIGHT)
    return silu * sigmoid(1.702 * silu)


def graph() -> ir.Model:
    made = model(two, shape=("n", 8))
    for node in made.graph:
        node.metadata_props[MODULE] = f"net.{node.op_type}"
    return made


def test_a_row_says_what_stands_there_and_what_it_became() -> None:
    made = graph()
    index = sites.kernels(made, "cpu")
    first, last = [sites.row(site, index) for site in find(made).sites]
    assert (first["form"], first["spelling"], first["module"]) == ("erf", "ops", "net.Mul")
    assert (first["kernels"], first["reason"]) == (["Gelu"], "")
    assert (last["form"], last["output"], last["kernels"]) == ("sigmoid", "y", ["QuickGelu"])
    assert first["error"] < 1e-6
    assert "bias" not in first


def test_a_fused_bias_is_named() -> None:
    bias = np.linspace(-1, 1, 8, dtype=np.float32)
    made = model(lambda x: op("FastGelu", x, bias, domain="com.microsoft"))
    (one,) = find(made).sites
    assert sites.row(one, sites.kernels(made, "cpu"))["bias"] in made.graph.initializers


def test_rows_say_what_was_found_and_what_was_written() -> None:
    made = graph()
    found = find(made).sites
    writer = Rewrite(found, "sigmoid", "auto", exclude=(), opset=20)
    plans = [(site.output.name or "", writer.plan(site)) for site in found]
    writer.apply(made)
    index = sites.kernels(made, "cpu")
    rows = sites.rewritten([sites.row(site, index) for site in find(made).sites], plans)
    assert [row.get("found") for row in rows] == [
        {"form": "erf", "spelling": "ops"},
        {"form": "sigmoid", "spelling": "ops", "alpha": 1.702},
    ]
    assert [row.get("written") for row in rows] == [{"form": "sigmoid", "spelling": "ops", "alpha": 1.702}] * 2


def test_a_row_whose_output_was_renamed_is_joined_by_its_place() -> None:
    made = graph()
    found = find(made).sites
    writer = Rewrite(found)
    plans = [(site.output.name or "", writer.plan(site)) for site in found]
    index = sites.kernels(made, "cpu")
    rows = [sites.row(site, index) for site in found]
    rows[0]["output"], rows[0]["module"] = "folded", ""
    joined = sites.rewritten(rows, plans)
    assert joined[0].get("found") == {"form": "erf", "spelling": "ops"}
    assert joined[0]["module"] == "net.Mul"
    assert joined[1].get("found") == {"form": "sigmoid", "spelling": "ops", "alpha": 1.702}


def test_recorded_rows_get_the_kernels_of_this_runtime() -> None:
    made = graph()
    index = sites.kernels(made, "cpu")
    rows = [sites.row(site, index) for site in find(made).sites]
    for row in rows:
        row["kernels"], row["reason"] = ["Elsewhere"], "another machine"
    assert [row["kernels"] for row in sites.renewed(rows, index)] == [["Gelu"], ["QuickGelu"]]
    rows[0]["output"] = "gone"
    (lost, _) = sites.renewed(rows, index)
    assert lost["kernels"] == []
    assert "folded" in lost["reason"]


def test_near_misses_say_why() -> None:
    (silu,) = sites.near_misses(find(graph()).misses)
    assert silu["reason"].startswith("x·σ(1·x)")
    assert silu["module"] == "net.Mul"
    assert silu["error"] > 0.01
    (short,) = sites.near_misses(find(model(lambda x: 0.5 * x * (1 + tanh(0.8 * (x + 0.05 * x**3.0))))).misses)
    assert (short["input"], short["output"]) == ("x", "y")
    assert short["reason"].startswith("GELU-like, off by ")

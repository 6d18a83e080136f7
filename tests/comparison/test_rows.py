"""One variant as a row, and as what budgets are held against."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import erf, model, op
from quantize_networks import feeds, ffn, ranges

from gelu_deploy import runtime
from gelu_deploy.artifact import stage
from gelu_deploy.comparison import gates
from gelu_deploy.comparison.answering import Answered
from gelu_deploy.comparison.candidates import Candidate
from gelu_deploy.comparison.latency import Latency
from gelu_deploy.comparison.rows import Table, kernels
from gelu_deploy.options import CompareOptions
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.network import Recipe
from gelu_deploy.results import Estimate, LatencyResult
from gelu_deploy.scoring.metric import named

TOP1 = named("top1")
MADE = ffn(width=32, hidden=64)
FEED = next(feeds(MADE))
ONE = Estimate(value=1.0, low=1.0, high=1.0)
TOOK = Latency(
    LatencyResult(p50=2.0, p90=3.0, p99=4.0, runs=700, ratio=ONE), Estimate(value=4.0, low=3.9, high=4.2), 7_000
)


def shares(right: int, rows: int = 100) -> Any:
    return np.stack([np.repeat([1.0, 0.0], [right, rows - right]), np.ones(rows)], axis=1)


def table(**options: Any) -> Table:
    answers = {
        "float": Answered(shares(90), None, math.nan, math.nan),
        "int8": Answered(shares(87), shares(96), 1e-3, 40.0),
        "unscored": Answered(None, None, math.nan, 20.0),
    }
    asked = gates.budgets(CompareOptions(data="d", **options), TOP1)
    return Table(TOP1, 0.95, asked, "cpu", FEED, answers, {"float": TOOK, "int8": TOOK})


@pytest.fixture
def integer(tmp_path: Path) -> Path:
    ir.save(insert.static(MADE, Recipe(ranges(MADE, list(feeds(MADE))))), tmp_path / "int8.onnx")
    return tmp_path / "int8.onnx"


def one(path: Path | None, name: str = "int8", **more: Any) -> Candidate:
    usual = {"family": "also", "form": "erf", "precision": "int8", "against": "float", "path": path}
    return Candidate(name, **{**usual, **more})


def test_a_row_says_what_was_measured_and_what_the_file_is(integer: Path) -> None:
    row = table().row(one(integer, notes=("a note",)))
    assert row["score"] is not None
    assert row["score"]["value"] == pytest.approx(0.87)
    assert row["difference"] is not None
    assert (row["difference"]["against"], row["difference"]["lost"], row["difference"]["gained"]) == ("float", 3, 0)
    assert row["difference"]["loss"]["value"] == pytest.approx(0.03)
    assert row["difference"]["more_rows"] == 0
    assert (row["agreement"], row["kl"], row["sqnr"]) == (0.96, 1e-3, 40.0)
    assert (row["bytes"], row["memory"], row["latency"]) == (integer.stat().st_size, 7_000, TOOK.result)
    assert (row["integer_share"], row["kernels"], row["notes"]) == (1.0, {"Gelu": 1}, ["a note"])


def test_rows_that_a_budget_needs_are_counted_for_what_may_ship(integer: Path) -> None:
    assert table(max_drop="0.5%").row(one(integer))["difference"]["more_rows"] > 100  # type: ignore[index]
    assert table(max_drop="0.5%").row(one(integer, family="twin"))["difference"]["more_rows"] == 0  # type: ignore[index]


def test_what_was_not_measured_is_nothing(integer: Path) -> None:
    row = table().row(one(integer, "unscored"))
    assert (row["score"], row["difference"], row["latency"], row["memory"]) == (None, None, None, 0)
    assert math.isnan(row["agreement"])
    assert row["sqnr"] == 20.0
    failed = table().row(one(None, "failed", family="model", against="", failure="no layer"))
    assert (failed["bytes"], failed["kernels"], failed["notes"]) == (0, {}, ["no layer"])
    assert math.isnan(failed["integer_share"])


def test_budgets_get_the_numbers_and_their_intervals(integer: Path) -> None:
    candidate, made = one(integer), table()
    found = made.measured(candidate, made.row(candidate))
    assert (found.rows, found.runs, found.p50, found.failure) == (100, 700, 2.0, "")
    assert found.estimates[gates.P99] == TOOK.high
    assert found.estimates[gates.SIZE] == gates.exact(integer.stat().st_size)
    assert found.estimates[gates.MEMORY] == gates.exact(7_000)
    assert found.estimates[gates.DROP]["value"] == pytest.approx(0.03)
    same = found.estimates[gates.AGREEMENT]
    assert same["value"] == 0.96
    assert same["low"] == pytest.approx(0.9016, abs=1e-4)  # Wilson's, of 96 in 100
    unscored = made.measured(one(integer, "unscored"), made.row(one(integer, "unscored")))
    assert set(unscored.estimates) == {gates.SIZE}


def test_an_artifact_says_its_own_share(integer: Path, tmp_path: Path) -> None:
    with stage(tmp_path / "ours.onnx") as staged:
        staged.write(ir.load(integer), {"quantization": {"integer_share": 0.25}})
        staged.publish({})
    assert table().row(one(tmp_path / "ours.onnx"))["integer_share"] == 0.25


def test_gelus_in_several_operators_are_counted_and_their_remedy_is_named(tmp_path: Path) -> None:
    spelt = model(lambda x: op("Gelu", x * (erf(x / math.sqrt(2)) * 0.5 + 0.5)), shape=("n", 8))
    ir.save(spelt, tmp_path / "m.onnx")
    used = kernels(runtime.Session(tmp_path / "m.onnx"))
    assert used.pop("Gelu") == 1
    ((operators, count),) = used.items()
    assert (count, operators.count("+") > 1) == (1, True)
    plain = Candidate("float", "model", "erf", "float", file="m.onnx", path=tmp_path / "m.onnx")
    assert table().row(plain)["notes"] == [
        "1 of its GELUs run as several operators; gelu-deploy export m.onnx -o OUT.onnx writes each as one"
    ]

"""The articles' numbers beside what came out."""

from __future__ import annotations

import pytest
from forms_sample import ROWS, measured

from gelu_deploy.forms_bench.claims import AS7127, FASTER, claims


def test_the_saving_of_tanh_is_told_where_both_are_written_alike() -> None:
    found = {one["where"]: one for one in claims(measured()["forms"], ROWS) if one["claim"] == FASTER}
    assert set(found) == {
        "NumPy, ops",
        "PyTorch, gelu",
        "torch.compile, gelu",
        "ONNX Runtime, gelu",
        "ORT unfused, ops",
    }
    assert found["PyTorch, gelu"]["measured"] == pytest.approx(0.25)
    assert found["ORT unfused, ops"]["measured"] == pytest.approx(-0.5)
    assert found["PyTorch, gelu"]["low"] == pytest.approx(found["PyTorch, gelu"]["high"])
    assert all(one["said"] == 0.15 and one["percent"] for one in found.values())


def test_errors_that_the_articles_give_are_not_what_they_are() -> None:
    found = {(one["claim"], one["where"]): one for one in claims(measured()["forms"], [])}
    tanh, sigmoid = (f"relative error of {name}" for name in ("tanh", "sigmoid"))
    assert found[tanh, "x > 0"]["measured"] == pytest.approx(2.0e-4, rel=0.01)
    assert found[tanh, "-6 < x < 0"]["measured"] > 0.9 > found[tanh, "-6 < x < 0"]["said"]
    assert found[sigmoid, "x > 0"]["measured"] == pytest.approx(1.35e-2, rel=0.01)
    assert found[AS7127, "all x"]["measured"] == pytest.approx(6.879e-4, rel=1e-3)


def test_a_saving_that_the_rounds_do_not_agree_on_is_seen() -> None:
    rows = [row for row in ROWS if row["engine"] == "PyTorch"]
    unsteady = [{**row, "rounds": [1.0, 2.0, 3.0] if row["form"] == "tanh" else [2.0, 2.0, 2.0]} for row in rows]
    (found, *_) = claims(measured()["forms"], unsteady)  # type: ignore[arg-type]  # a TypedDict, unpacked
    assert (found["measured"], found["low"], found["high"]) == (0.0, -0.5, 0.5)

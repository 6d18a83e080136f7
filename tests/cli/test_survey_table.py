"""A survey as a person reads it, and what a newcomer types wrong to get one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gelu_deploy.cli import tables
from gelu_deploy.results import SurveyedSite, SurveyResult


def site(module: str, activation: str = "erf", **more: Any) -> SurveyedSite:
    made = SurveyedSite(
        module=module,
        activation=activation,
        input="x",
        output="y",
        values=1000,
        not_finite=0,
        minimum=-12.345,
        maximum=7.5,
        mean=-0.5,
        std=1.25,
        quantiles={"0.5": -0.4},
        output_minimum=-0.17,
        output_maximum=7.5,
        gain=1.53,
        effective=0.974,
        negative=0.531,
        vanishing=0.004,
        outlier_ratio=1.41,
        codes_below_zero=6,
        channels=192,
        dead=0,
        saturated=3,
    )
    return SurveyedSite(**{**made, **more})  # type: ignore[typeddict-item]


SURVEY: SurveyResult = {
    "schema": "gelu-deploy/survey/1",
    "source": "digits_vit.pt: state_dict, 55 tensors, 0.5 MB",
    "data": "digits_test.npz",
    "rows": 450,
    "provider": "cpu",
    "sites": [
        site("blocks.0.mlp.act"),
        site("blocks.1.mlp.act", "relu", negative=0.0, codes_below_zero=0, dead=5, not_finite=3),
        site("", effective=float("nan"), outlier_ratio=float("nan")),
    ],
    "notes": ["GELUs in functions or bodies cannot be looked at: 1 of them"],
}


def text(result: SurveyResult, columns: int) -> str:
    page = io.StringIO()
    console = Console(file=page, width=columns, highlight=False)
    for part in tables.render(result):
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


@pytest.mark.parametrize("columns", [60, 80])
def test_golden(columns: int, golden: Any) -> None:
    shown = text(SURVEY, columns)
    assert max(map(len, shown.splitlines())) <= columns
    golden(f"survey_{columns}.txt", shown)


def test_a_model_without_sites_says_so() -> None:
    assert text({**SURVEY, "sites": []}, 80).splitlines()[-1] == "No GELU and no ReLU found."


def test_the_json_is_all_that_is_written(typed: Any, folder: Path) -> None:
    before = sorted(folder.iterdir())
    code, out, err = typed("survey", "nets.py:Net", "--data", "x.npz", "--json", "-")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert (result["schema"], result["rows"], len(result["sites"])) == ("gelu-deploy/survey/1", 2, 1)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("survey done.onnx", 2, "--data is missing"),
        ("survey done.onnx --data", 2, "--data"),
        ("survey done.onnx --data none.npz", 2, "none.npz"),
        ("survey done.onnx --data y.npz", 2, "x"),
        ("survey done.onnx --data wide.npz", 2, "8"),
        ("survey done.onnx --data text.onnx", 2, "text.onnx"),
        ("survey done.onnx --data folder", 2, "folder"),
        ("survey done.onnx --data nets.py:boom", 2, "boom"),
        ("survey done.onnx --data x.npz --batch 0", 2, "batch"),
        ("survey done.onnx --data x.npz --json x.npz", 7, "x.npz"),
        ("survey weights.pt --data x.npz", 2, "--arch"),
        ("survey none.onnx --data x.npz", 4, "none.onnx"),
        ("survey text.onnx --data x.npz", 4, "text.onnx"),
    ],
)
def test_every_mistake_is_named(line: str, code: int, said: str, typed: Any) -> None:
    got, out, err = typed(*line.split())
    assert (got, out, err.count("gelu-deploy: ")) == (code, "", 1), err
    assert said in err
    assert "Traceback" not in err

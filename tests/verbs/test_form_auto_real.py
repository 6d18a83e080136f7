"""``export --form auto`` with real times: what is told is what was measured, on a busy machine too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
from choosing_networks import unfusable
from graphs import Expression, model

import gelu_deploy

HERE = Path(__file__).parents[1]
MODELS = HERE.parent / "models"


@pytest.fixture
def alone() -> Iterator[None]:
    """One core for this process and its children, so that no thread waits for another that has no core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
def test_a_form_that_nothing_fuses_is_left_for_what_fuses(tmp_path: Path) -> None:
    def chain(x: Expression) -> Expression:
        for _ in range(16):
            x = unfusable(x)
        return x

    ir.save(model(chain, shape=("n", 64), opset=17), tmp_path / "m.onnx")

    def chosen() -> Any:
        return gelu_deploy.export(
            tmp_path / "m.onnx",
            output=tmp_path / "o.onnx",
            form="auto",
            target="ort-cpu",
            input="x:1x64:float32",
            cache=False,
            overwrite=True,
        )

    result = chosen()
    for _ in range(2):  # where the machine is so busy that nothing is beyond noise, it rightly says so
        result = result if result["choice"]["sites"] else chosen()
    assert {tuple(site["kernels"]) for site in result["sites"]} == {("Gelu",)}, result["choice"]["lines"]
    assert result["choice"]["chosen"] == "erf as contrib"
    assert result["choice"]["ratio"]["high"] < 1


@pytest.mark.slow
def test_the_digits_keep_the_exact_form_or_show_a_gain_beyond_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result: Any = gelu_deploy.export(
        str(MODELS / "digits_vit.pt"),
        arch=str(MODELS / "digits_vit.py:digits_vit"),
        output=tmp_path / "m.onnx",
        exporter=f"{HERE / 'cached.py'}:dynamo",
        form="auto",
        max_form_error=0.01,
        data=str(MODELS / "digits_test.npz"),
        metric="top1",
    )
    found = result["choice"]
    assert result["verdict"] == "pass"
    assert found["feeds"] == {"x": "2x1x8x8:float32"}
    forms = {site["form"] for site in result["sites"]}
    if found["sites"]:
        assert forms == {"tanh"}
        assert found["ratio"]["median"] < 0.98
        assert found["ratio"]["high"] < 1
    else:
        assert forms == {"erf"}
        assert found["lines"][0].startswith("keeps erf as gelu")
    effect = next(one["effect"] for one in found["candidates"] if "effect" in one and one["forms"] == ["tanh"])
    assert effect["rows"] == 450
    assert effect["metric"]["before"] > 0.97
    assert abs(effect["metric"]["after"] - effect["metric"]["before"]) < 0.005

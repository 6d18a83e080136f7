"""What ``quantize`` decides by measuring: layers left in float, targets, settings; and when it writes no file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from quantize_networks import ffn

import gelu_deploy
from gelu_deploy import artifact, runtime, tuning
from gelu_deploy.arrays import Arrays
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.measures.cpu import CPUS
from gelu_deploy.quantization.network import Network, Recipe
from gelu_deploy.results import QuantizeResult
from gelu_deploy.runtime.settings import Settings
from gelu_deploy.timing.interleaved import Timing, Variant

Quantize = Callable[..., QuantizeResult]


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_the_fewest_layers_that_hold_the_budget_stay_float(hurt: Path, quantize: Quantize) -> None:
    whole = quantize(data=hurt / "d.npz")
    assert whole["accuracy"]["before"] - whole["accuracy"]["after"] > 0.05  # type: ignore[index]
    result = quantize(data=hurt / "d.npz", max_drop="1%", overwrite=True)
    assert [one["integer"] for one in result["layers"]] == [False, True]
    assert result["accuracy"]["before"] - result["accuracy"]["after"] <= 0.01  # type: ignore[index]
    assert any(note.startswith("1 of 2 layers left in float") and "accuracy" in note for note in result["notes"])
    assert [one["module"] for one in result["sensitivity"]] == ["fc1", "fc2"]


def test_without_labels_the_float_model_is_right(hurt: Path, quantize: Quantize) -> None:
    result = quantize(calib_data=hurt / "plain.npz", max_drop="0.02")
    assert [one["integer"] for one in result["layers"]] == [False, True]
    assert result["accuracy"] is None
    assert any("points of agreement with the float model" in note for note in result["notes"])


def test_a_budget_that_is_not_held_in_time_is_a_verdict_and_no_file(hurt: Path, quantize: Quantize) -> None:
    result = quantize(data=hurt / "d.npz", max_drop="1%", time_budget=1e-9)
    assert result["verdict"] == "fail"
    assert result["reason"] == "not one layer runs in integers; in the time there was, --max-drop 1% took them all"
    assert (result["files"], _files(hurt)) == ([], ["d.npz", "m.onnx", "plain.npz"])


@pytest.mark.usefixtures("hurt")
def test_sensitivity_of_the_layers_or_of_every_operator(quantize: Quantize) -> None:
    layers = quantize(sensitivity="layers")["sensitivity"]
    assert [one["node"] for one in layers] == ["fc1", "fc2"]
    assert layers[0]["kl"] > 10 * layers[1]["kl"]
    assert layers[0]["agreement"] < layers[1]["agreement"]
    every = quantize(sensitivity="all", overwrite=True)["sensitivity"]
    assert every[0]["node"] == "fc1"
    assert {one["node"] for one in every} >= {"fc1", "fc2"}


def test_layers_that_fell_back_to_float_are_a_verdict(
    small: Path, quantize: Quantize, monkeypatch: pytest.MonkeyPatch
) -> None:
    ir.save(ffn(width=32, hidden=64, gemm=False).whole(), small / "m.onnx")
    monkeypatch.setattr("gelu_deploy.quantization.network.prepare.Gemms", _Nothing)
    result = quantize(correct_bias=False)
    assert result["verdict"] == "fail"
    assert result["reason"].startswith("2 layers are quantized in the file and run in float")
    assert "fc1, fc2" in result["reason"]
    assert "o.onnx" not in _files(small)


class _Nothing:
    """The pass that makes Gemms, left out."""

    def apply(self, model: ir.Model) -> Any:
        from gelu_deploy.graph.passes import Result

        return Result(model, modified=False, notes=())


def test_answers_that_are_no_numbers_are_a_verdict(
    small: Path, quantize: Quantize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelu_deploy.verbs.quantize.insert.static", _spoiled)
    result = quantize()
    assert (result["verdict"], result["reason"]) == (
        "fail",
        "answers are NaN or infinite where the float model's are not",
    )
    assert "o.onnx" not in _files(small)


def _spoiled(made: Network, recipe: Recipe, _static: Any = insert.static) -> ir.Model:
    """An integer model that adds NaN to one answer of each row."""
    model: ir.Model = _static(made, recipe)
    output = model.graph.outputs[0]
    nothing = ir.val("nothing", const_value=ir.tensor(np.where(np.arange(32) == 3, np.nan, 0).astype(np.float32)))
    model.graph.register_initializer(nothing)
    node = ir.node("Add", [output, nothing], name="spoiled")
    node.outputs[0].type, node.outputs[0].shape, node.outputs[0].name = output.type, output.shape, "spoiled"
    output.name, node.outputs[0].name = "inner", output.name
    model.graph.append(node)
    model.graph.outputs[0] = node.outputs[0]
    return model


@pytest.mark.parametrize("cpu", CPUS)
def test_it_is_judged_as_its_target_would_answer(small: Path, quantize: Quantize, cpu: str) -> None:
    """Whatever this machine is: what saturates here alone must not show, what is repaired there is repaired."""
    result = quantize(target_cpu=cpu, correct_bias=False, guard_outliers=False)
    assert (result["target_cpu"], result["verdict"]) == (cpu, "pass")
    with np.load(small / "plain.npz") as held:
        x = {"x": held["x"][3::4]}
    wanted, got = (
        next(iter(runtime.evaluate(small / name, x, optimise=False).values())) for name in ("m.onnx", "o.onnx")
    )
    plain = 10 * np.log10(np.sum(wanted**2) / np.sum((wanted - got) ** 2))
    assert result["sqnr"] == pytest.approx(plain, abs=0.5)
    repaired = any(note.startswith("16-bit sums") for note in result["notes"])
    assert repaired == CPUS[cpu].saturates
    assert any(one["cut_off"] > 0 for one in result["layers"]) == CPUS[cpu].saturates


def test_settings_that_gain_are_stored_and_applied(
    small: Path, quantize: Quantize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "timed", _faster_without_spinning)
    result = quantize(tune=True)
    assert result["runtime"]["settings"] == "no spinning"
    assert result["runtime"]["milliseconds"] == "5 instead of 10"
    assert "tried no spinning" in result["runtime"]
    with gelu_deploy.Session(small / "o.onnx", provider="cpu") as session:
        assert session.settings == Settings(spinning=False)
    assert artifact.verify(small / "o.onnx")["quantization"]["source"] == "m.onnx"


def test_settings_that_change_the_answers_are_not_kept(
    small: Path, quantize: Quantize, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WrongWithoutSpinning(runtime.Session):
        def _run(self, arrays: Arrays) -> Arrays:
            return {name: array + (not self.settings.spinning) for name, array in super()._run(arrays).items()}

    monkeypatch.setattr(tuning, "timed", _faster_without_spinning)
    monkeypatch.setattr("gelu_deploy.verbs.quantize.Session", WrongWithoutSpinning)
    assert quantize(tune=True)["runtime"]["milliseconds"] == "10"
    with gelu_deploy.Session(small / "o.onnx", provider="cpu") as session:
        assert session.settings == Settings()


def _faster_without_spinning(variants: list[Variant], feeds: Any, *, rounds: int) -> list[Timing]:
    answers = runtime.evaluate(Path(variants[0].arguments["model"]), feeds, optimise=True)
    times = [10.0 if one.arguments["settings"]["spinning"] else 5.0 for one in variants]
    return [Timing(one.name, ((time,),) * rounds, answers, 0, 0) for one, time in zip(variants, times, strict=True)]


def test_check_says_that_a_file_is_quantized_and_what_tells_its_cost(small: Path, quantize: Quantize) -> None:
    quantize()
    checked = gelu_deploy.check(small / "o.onnx", against=small / "m.onnx")
    assert checked["verdict"] == "fail"
    assert "gelu-deploy compare m.onnx --also o.onnx --data D says what it costs" in checked["notes"][-1]
    assert not any(
        "quantized" in note for note in gelu_deploy.check(small / "m.onnx", against=small / "m.onnx")["notes"]
    )

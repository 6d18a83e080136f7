"""What a change of form does to the answers on data: agreement and KL, or a metric of the person's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Formula, model, op

from gelu_deploy import runtime
from gelu_deploy.choosing.effects import effects
from gelu_deploy.errors import TargetError, UsageError
from gelu_deploy.results import EffectResult

ROWS = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``own.onnx`` and ``other.onnx``, whose first class is likelier, and ``d.npz`` with own's classes as labels."""
    for name, more in (("own", 0.0), ("other", 0.5)):
        ir.save(model(lifted(np.array([more] + [0.0] * 7, np.float32)), shape=("n", 8)), tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "d.npz", picture=ROWS, labels=answers(tmp_path / "own.onnx").argmax(1))
    return tmp_path


def lifted(lift: np.ndarray) -> Formula:
    """A GELU and something more."""
    return lambda x: op("Add", op("Gelu", x), lift)


def answers(file: Path) -> np.ndarray:
    found: np.ndarray = runtime.evaluate(file, {"x": ROWS}, optimise=True)["y"]
    return found


def effect(folder: Path, metric: str | None = None, data: str = "d.npz", name: str = "picture") -> EffectResult | None:
    others = {"other": folder / "other.onnx"}
    return effects(folder / "own.onnx", others, str(folder / data), metric, {name: "x"}, "cpu").get("other")


def test_answers_are_held_against_those_of_the_own_form(folder: Path) -> None:
    found = effect(folder)
    own, other = answers(folder / "own.onnx"), answers(folder / "other.onnx")
    agreed = float((own.argmax(1) == other.argmax(1)).mean())
    assert found is not None
    assert found["rows"] == 40
    assert found.get("agreement") == agreed < 1
    assert found.get("kl", 0.0) > 0.01
    assert found["sqnr"] < 20
    assert "metric" not in found


def test_a_metric_is_told_before_and_after(folder: Path) -> None:
    found = effect(folder, "top1")
    assert found is not None
    metric = found.get("metric")
    assert metric is not None
    assert (metric["name"], metric["percent"], metric["before"]) == ("top1", True, 1.0)
    assert metric["after"] == found.get("agreement")


def test_a_metric_of_the_persons_own(folder: Path) -> None:
    file = folder / "mine.py"
    file.write_text("def largest(outputs, labels, inputs):\n    return outputs['y'].max(1)\n")
    found = effect(folder, f"{file}:largest")
    assert found is not None
    metric = found.get("metric")
    assert metric is not None
    assert metric["before"] == pytest.approx(answers(folder / "own.onnx").max(1).mean(), rel=1e-6)
    assert metric["after"] > metric["before"]
    with pytest.raises(TargetError):
        effect(folder, f"{file}:nothing")


def test_what_lies_under_the_name_of_labels_matters_to_a_metric_only(folder: Path) -> None:
    np.savez(folder / "odd.npz", picture=ROWS, y=np.full((40, 3), 0.5))
    assert effect(folder, data="odd.npz") is not None
    with pytest.raises(UsageError, match="labels"):
        effect(folder, "top1", "odd.npz")


def test_data_without_an_input_say_nothing(folder: Path) -> None:
    assert effect(folder, name="sound") is None


def test_answers_that_are_no_classes_have_their_noise(tmp_path: Path) -> None:
    for name, more in (("own", 0.0), ("other", 0.1)):
        ir.save(model(lifted(np.array([more], np.float32)), shape=("n", 1)), tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "d.npz", x=ROWS[:, :1])
    found = effect(tmp_path, name="x")
    assert found is not None
    assert found.keys() == {"rows", "sqnr"}
    with pytest.raises(UsageError, match="--metric top1: nothing can be scored"):
        effect(tmp_path, "top1", name="x")

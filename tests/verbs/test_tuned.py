"""``export --tune``: settings of the runtime that gain are stored with the file, if every answer stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gelu_deploy
from gelu_deploy import artifact, runtime, tuning
from gelu_deploy.arrays import Arrays
from gelu_deploy.errors import UsageError
from gelu_deploy.runtime.settings import Settings
from gelu_deploy.timing.interleaved import Timing, Variant


@pytest.fixture(autouse=True)
def faster_without_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(variants: list[Variant], _: Any, *, rounds: int) -> list[Timing]:
        times = [10.0 if one.arguments["settings"]["spinning"] else 5.0 for one in variants]
        return [Timing(one.name, ((time,),) * rounds, {}, 0, 0) for one, time in zip(variants, times, strict=True)]

    monkeypatch.setattr(tuning, "timed", timed)


def test_what_gains_is_stored_with_the_file_and_used(small: Path) -> None:
    out = small / "tuned.onnx"
    result = gelu_deploy.export(small / "m.onnx", output=out, tune=True)
    assert (result["verdict"], result["runtime"]["settings"]) == ("pass", "no spinning")
    assert result["runtime"]["milliseconds"] == "5 instead of 10"
    assert gelu_deploy.Session(out, provider="cpu").settings == Settings(spinning=False)
    assert artifact.verify(out)["verdict"]["verdict"] == "pass"
    assert gelu_deploy.check(out)["verdict"] == "pass"


def test_settings_that_move_an_answer_are_not_kept(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class WrongWithoutSpinning(runtime.Session):
        def _run(self, arrays: Arrays) -> Arrays:
            return {name: array + (not self.settings.spinning) for name, array in super()._run(arrays).items()}

    monkeypatch.setattr(runtime, "Session", WrongWithoutSpinning)
    result = gelu_deploy.export(small / "m.onnx", output=small / "tuned.onnx", tune=True)
    assert (result["verdict"], result["runtime"]["settings"]) == ("pass", "the runtime's own")


def test_without_being_asked_nothing_is_tried_and_without_proof_nothing_can_be(small: Path) -> None:
    assert "runtime" not in gelu_deploy.export(small / "m.onnx", output=small / "plain.onnx")
    with pytest.raises(UsageError, match="--tune and --no-verify"):
        gelu_deploy.export(small / "m.onnx", output=small / "o.onnx", tune=True, verify=False)

"""Settings of the runtime: what is tried, and that one is kept only for a gain beyond noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from gelu_deploy import artifact, runtime, tuning
from gelu_deploy.runtime.settings import KEY, Settings
from gelu_deploy.timing.interleaved import Timing, Variant

TEXT = """<ir_version: 9, opset_import: ["": 20]>
network (float[n, 2, 8] x, float[n, 2, 8] other) => (float[n, 2, 8] y)
  <float[8] scale = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] bias = {0, 1, 0, 1, 0, 1, 0, 1}>
{ sum = Add(x, other)  y = LayerNormalization(sum, scale, bias) }"""
FEEDS = {"x": np.ones((1, 2, 8), np.float32), "other": np.arange(16, dtype=np.float32).reshape(1, 2, 8)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    ir.save(ir.from_proto(parser.parse_model(TEXT)), path)
    return path


def timing(name: str, *milliseconds: float) -> Timing:
    return Timing(name, tuple((one,) for one in milliseconds), {}, 0, 0)


def test_disabling_an_optimizer_changes_the_graph_and_only_such_are_tried(model: Path) -> None:
    operators = {
        str(settings): [
            node.op_type for node in runtime.optimised(model, settings=settings).graph if node.op_type != "Cast"
        ]
        for settings in (Settings(), Settings(("SkipLayerNormFusion",)))
    }
    assert list(operators.values()) == [["SkipLayerNormalization"], ["Add", "LayerNormalization"]]
    tried = [one.disabled_optimizers for one in tuning._candidates(model, "cpu")]
    assert ("SkipLayerNormFusion",) in tried
    assert ("BiasGeluFusion",) not in tried


def test_a_gain_must_hold_in_the_median_and_in_nine_rounds_of_ten() -> None:
    base = timing("base", *[10.0] * 10)
    assert tuning.gains(timing("faster", *[9.0] * 10), base)
    assert not tuning.gains(timing("hardly", *[9.9] * 10), base)
    assert not tuning.gains(timing("noisy", *[9.0] * 7, 12, 12, 12), base)


def test_answers_that_are_not_as_good_are_not_bought_with_speed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fast_when_changed(variants: list[Variant], _feeds: object, *, rounds: int) -> list[Timing]:
        return [timing(one.name, *[10.0 if one.name == tuning.BASE else 5.0] * rounds) for one in variants]

    monkeypatch.setattr(tuning, "timed", fast_when_changed)
    kept = tuning.tune(model, FEEDS, lambda *_: True)
    assert kept.settings.disabled_optimizers == ("SkipLayerNormFusion",)
    assert (kept.base, kept.chosen) == (10.0, 5.0)
    assert tuning.tune(model, FEEDS, lambda *_: False).settings == Settings()


def test_a_session_opens_a_model_with_the_settings_stored_in_it(model: Path, tmp_path: Path) -> None:
    settings = Settings(("SkipLayerNormFusion",), threads=1, spinning=False)
    path = tmp_path / "tuned.onnx"
    with artifact.stage(path) as stage:
        stage.write(ir.load(model), {KEY: settings.to_json()})
        stage.publish({})
    assert runtime.Session(path).settings == settings
    assert runtime.Session(path, threads=2).settings == Settings(("SkipLayerNormFusion",), 2, spinning=False)
    assert runtime.Session(path, settings=Settings()).settings == Settings()


def test_a_number_of_threads_holds_where_it_was_measured() -> None:
    settings = Settings(threads=1, cores=2)
    assert settings.here(2) == settings
    assert settings.here(8) == Settings()
    assert Settings.from_json(settings.to_json()) == settings
    assert Settings.from_json({"of": "a later version"}) == Settings()
    assert str(Settings(("A", "B"), 1, spinning=False)) == "without A, B, 1 thread, no spinning"

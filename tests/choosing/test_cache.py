"""A choice is kept for what it depends on, and for nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from choosing_networks import both, pipeline, unfusable

from gelu_deploy.choosing import cache
from gelu_deploy.options import ExportOptions
from gelu_deploy.results import ChoiceResult

OPTIONS = ExportOptions(form="auto")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def result() -> ChoiceResult:
    return cast("ChoiceResult", dict.fromkeys(ChoiceResult.__annotations__, 1))


def test_the_same_question_has_the_same_place(home: Path) -> None:
    place = cache.place(pipeline(both), OPTIONS, 17)
    assert place == cache.place(pipeline(both), replace(OPTIONS, output="elsewhere.onnx", overwrite=True), 17)
    assert place.parent == home / "gelu-deploy" / "form-auto"
    assert place.suffix == ".json"


def test_whatever_it_depends_on_makes_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = pipeline(both)
    data, metric = tmp_path / "d.npz", tmp_path / "m.py"
    np.savez(data, x=np.ones(3))
    metric.write_text("def f(outputs, labels, inputs): ...")
    asked = replace(OPTIONS, data=str(data), metric=f"{metric}:f")
    places = [
        cache.place(pipeline(unfusable), OPTIONS, 17),
        cache.place(start, OPTIONS, 17),
        cache.place(start, OPTIONS, 20),
        cache.place(start, asked, 17),
        *(
            cache.place(start, replace(OPTIONS, **cast("Any", changed)), 17)
            for changed in (
                {"max_form_error": 1e-3},
                {"spelling": "ops"},
                {"target": "ort-cpu"},
                {"exclude": ("a.*",)},
                {"simplify": False},
                {"fp16_safe": True},
                {"accept_error": 1e-3},
                {"provider": "auto"},
            )
        ),
    ]
    np.savez(data, x=np.zeros(3))
    places.append(cache.place(start, asked, 17))
    metric.write_text("def f(outputs, labels, inputs): return 1")
    places.append(cache.place(start, asked, 17))
    weight = next(iter(start.held.weights.values()))
    assert weight.const_value is not None
    weight.const_value = type(weight.const_value)(weight.const_value.numpy() + 1)  # type: ignore[call-arg]  # a Tensor
    places.append(cache.place(start, OPTIONS, 17))
    start.cases[0].inputs["x"][0, 0] += 1
    places.append(cache.place(start, OPTIONS, 17))
    monkeypatch.setattr("gelu_deploy.timing.machine.here", lambda: {"cpu": "another"})
    places.append(cache.place(start, OPTIONS, 17))
    monkeypatch.setattr(cache, "GPUS", tmp_path)
    (tmp_path / "0000").mkdir()
    (tmp_path / "0000" / "information").write_text("Model: \t NVIDIA H200\nIRQ: 1\n")
    places.append(cache.place(start, OPTIONS, 17))
    assert len(set(places)) == len(places)


def test_what_is_kept_is_read_again(home: Path) -> None:
    place = cache.place(pipeline(both), OPTIONS, 17)
    assert cache.load(place) is None
    assert cache.save(place, result()) == []
    assert cache.load(place) == result()
    assert [path.name for path in home.rglob("*") if path.is_file()] == [place.name]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"lines": []}', "\x00"])
def test_what_is_damaged_is_measured_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kept.json"
    path.write_text(text)
    assert cache.load(path) is None
    path.write_bytes(b"\xff\xfe")
    assert cache.load(path) is None


def test_of_another_version_is_measured_anew(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({**result(), "more": 1}))
    assert cache.load(path) is None


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (note,) = cache.save(tmp_path / "file" / "kept.json", result())
    assert note.startswith("the choice of --form auto is not kept: ")

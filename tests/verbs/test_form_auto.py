"""``export --form auto``: what is written, what is told, what is refused, and on real kernels what is faster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from choosing_networks import both, operators, timer, unfusable
from graphs import model, op

import gelu_deploy
from gelu_deploy.choosing import racing
from gelu_deploy.cli import main
from gelu_deploy.errors import NativeCrash, UsageError
from gelu_deploy.results import ChoiceResult, ExportResult

HERE = Path(__file__).parents[1]
MODELS = HERE.parent / "models"

Races = list[list[str]]
Auto = Callable[..., ExportResult]


@pytest.fixture
def races() -> Races:
    """Who was in each race, keep's own way twice."""
    return []


@pytest.fixture
def took() -> dict[str, float]:
    """Milliseconds by candidate; 10 where nothing is said."""
    return {}


@pytest.fixture
def auto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, races: Races, took: dict[str, float]) -> Auto:
    """The verb on ``m.onnx``, one exact GELU that no operators of opset 17 fuse, with times that are made up."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(racing, "timed", timer(lambda name: took.get(name, 10.0), races))
    ir.save(model(unfusable, shape=("n", 32), opset=17), tmp_path / "m.onnx")
    rows = np.random.default_rng(0).normal(size=(50, 32)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=rows, labels=rows.argmax(1))

    def call(source: str = "m.onnx", **options: Any) -> ExportResult:
        asked = {"form": "auto", "overwrite": True, **options}
        return gelu_deploy.export(tmp_path / source, output=tmp_path / "o.onnx", **asked)

    return call


def choice(result: ExportResult) -> ChoiceResult:
    assert "choice" in result
    return result["choice"]


def test_without_a_gain_the_file_is_the_one_that_keep_writes(auto: Auto, tmp_path: Path) -> None:
    result = auto()
    gelu_deploy.export(tmp_path / "m.onnx", output=tmp_path / "kept.onnx")
    assert result["verdict"] == "pass"
    assert operators(tmp_path / "o.onnx") == operators(tmp_path / "kept.onnx")
    assert choice(result)["sites"] == {}
    assert choice(result)["lines"][0].startswith("keeps erf as ops: ")
    assert [stage["name"] for stage in result["stages"]] == ["export", "rewrite", "simplify", "runtime", "sites"]


def test_the_spelling_that_gains_is_written_where_the_target_takes_it(
    auto: Auto, took: dict[str, float], tmp_path: Path
) -> None:
    took["erf as contrib"] = 4.0
    result = auto(target="ort-cpu")
    assert result["verdict"] == "pass"
    assert "Gelu" in operators(tmp_path / "o.onnx")
    (site,) = result["sites"]
    assert (site["form"], site["spelling"], site["kernels"]) == ("erf", "contrib", ["Gelu"])
    assert choice(result)["sites"] == {site["output"]: {"form": "erf", "spelling": "contrib"}}
    assert choice(result)["lines"][0] == "erf as contrib in the place of erf as ops: 0.40 of its time (0.40 to 0.40)"


def test_without_a_target_it_is_told_what_one_would_bring(auto: Auto, took: dict[str, float]) -> None:
    took["erf as contrib"] = 4.0
    found = choice(auto(provider="CPUExecutionProvider"))
    assert (found["chosen"], found["provider"]) == ("erf as ops", "cpu")
    assert "with --target ort-cpu: erf as contrib, 0.40 of its time" in found["lines"][1]


def test_another_form_needs_a_budget_and_the_stage_says_what_it_changed(auto: Auto, took: dict[str, float]) -> None:
    took["tanh as ops"] = 4.0
    closed = choice(auto())
    assert closed["chosen"] == "erf as ops"
    needed = closed["lines"][1].partition("with --max-form-error ")[2].partition(":")[0]
    result = auto(max_form_error=float(needed))
    assert result["verdict"] == "pass", result["reason"]
    assert choice(result)["chosen"] == "tanh as ops"
    (stage,) = [one for one in result["stages"] if one["name"] == "form erf -> tanh"]
    (row,) = [one for one in choice(result)["candidates"] if one["name"] == "tanh as ops"]
    assert stage["max_abs"] == row["error"] <= float(needed)
    assert auto(max_form_error=row["error"] / 2)["sites"][0]["form"] == "erf"


def test_the_answers_on_data_are_compared(auto: Auto, took: dict[str, float], tmp_path: Path) -> None:
    took["sigmoid as ops"] = 4.0
    result = auto(max_form_error=0.1, data=str(tmp_path / "d.npz"))
    assert "agreement " in choice(result)["lines"][1]
    assert choice(result)["lines"][1].endswith(" on 50 rows of d.npz")
    assert "not inputs, ignored in --data: labels" in result["notes"]
    scored = auto(max_form_error=0.1, data=str(tmp_path / "d.npz"), metric="top1")
    assert "; top1 " in choice(scored)["lines"][1]
    assert not [note for note in scored["notes"] if "ignored" in note]


def test_data_that_cannot_be_compared_are_a_note_unless_a_metric_was_asked_for(auto: Auto, tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", x=np.ones((50, 32), np.float32), labels=np.zeros(3, np.int64))
    (note,) = [one for one in auto(data=str(tmp_path / "odd.npz"))["notes"] if "not compared" in one]
    assert "rows differ" in note
    with pytest.raises(UsageError, match="rows differ"):
        auto(data=str(tmp_path / "odd.npz"), metric="top1")


def test_each_kind_of_gelu_may_be_written_in_its_own_way(
    auto: Auto, took: dict[str, float], races: Races, tmp_path: Path
) -> None:
    ir.save(model(both, shape=("n", 32), opset=17), tmp_path / "two.onnx")
    took["1 erf as ops, 1 tanh as ops"] = 4.0
    result = auto("two.onnx", max_form_error=0.1)
    assert result["verdict"] == "pass", result["reason"]
    assert sorted(site["form"] for site in result["sites"]) == ["erf", "tanh"]
    assert len(choice(result)["sites"]) == 1
    assert choice(result)["shapes"] == 2
    assert len(races) == 3


def test_the_second_time_nothing_is_measured(auto: Auto, took: dict[str, float], races: Races) -> None:
    took["erf as contrib"] = 4.0
    first = choice(auto(target="ort-cpu"))
    measured = len(races)
    again = auto(target="ort-cpu")
    assert len(races) == measured
    assert again["sites"][0]["spelling"] == "contrib"
    assert choice(again) == {**first, "cached": True, "lines": choice(again)["lines"]}
    assert choice(again)["lines"][:2] == first["lines"][:2]
    assert choice(again)["lines"][2].endswith("--no-cache measures anew")
    assert not choice(auto(target="ort-cpu", cache=False))["cached"]
    assert len(races) == 2 * measured
    assert not choice(auto(target="ort-cpu", max_form_error=0.0))["cached"]


def test_on_a_busy_machine_nothing_changes(auto: Auto, monkeypatch: pytest.MonkeyPatch, races: Races) -> None:
    paces = iter(np.random.default_rng(0).lognormal(0, 0.4, (1000, racing.ROUNDS)).tolist())
    monkeypatch.setattr(racing, "timed", timer(lambda _: next(paces), races))
    for _ in range(4):
        found = choice(auto(cache=False, max_form_error=0.1, target="ort-cpu"))
        assert found["chosen"] == "erf as ops"
        assert "can be seen" in found["lines"][2]


def test_with_a_spelling_only_forms_compete(auto: Auto) -> None:
    found = choice(auto(spelling="contrib", max_form_error=0.1))
    assert [one["name"] for one in found["candidates"]] == ["erf as contrib", "tanh as contrib", "sigmoid as contrib"]
    assert not [one for one in found["candidates"] if one["needs"]]


def test_without_proof_it_chooses_all_the_same(auto: Auto, took: dict[str, float]) -> None:
    took["tanh as ops"] = 4.0
    result = auto(verify=False, max_form_error=0.1)
    assert (result["verdict"], result["stages"]) == ("not verified", [])
    assert choice(result)["chosen"] == "tanh as ops"


def test_without_a_gelu_there_is_nothing_to_choose(auto: Auto, races: Races, tmp_path: Path) -> None:
    ir.save(model(lambda x: op("Neg", x), shape=("n", 32), opset=17), tmp_path / "none.onnx")
    assert "choice" not in auto("none.onnx")
    assert "choice" not in auto(exclude="*")
    assert races == []


def test_nothing_is_left_behind_and_the_report_has_the_choice(auto: Auto, tmp_path: Path) -> None:
    result = auto()
    assert {path.name for path in tmp_path.iterdir()} - {Path(file).name for file in result["files"]} == {
        "m.onnx",
        "d.npz",
        "cache",
    }
    report = json.loads((tmp_path / "o.report.json").read_text())
    assert report["choice"]["lines"] == choice(result)["lines"]
    held = {entry.key: entry.value for entry in onnx.load(tmp_path / "o.onnx").metadata_props}
    assert json.loads(held["gelu_deploy.provenance"])["options"]["form"] == "auto"
    assert "its time" not in str(held)


def test_the_same_choice_gives_the_same_bytes(auto: Auto, tmp_path: Path) -> None:
    auto()
    first = (tmp_path / "o.onnx").read_bytes()
    auto()
    assert (tmp_path / "o.onnx").read_bytes() == first


def test_a_candidate_that_dies_is_said(auto: Auto, monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(*_: object, **__: object) -> None:
        raise NativeCrash("erf as ops could not be timed: its process ended with SIGSEGV")

    monkeypatch.setattr(racing, "timed", dying)
    with pytest.raises(NativeCrash, match="SIGSEGV"):
        auto()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "openvino"}, r"provider cpu of this machine.*--target openvino; say --target ort-cpu"),
        ({"target": "portable-13"}, r"--target portable-13; say --target ort-cpu, or name the form"),
        ({"target": "ort-cuda"}, r"--target ort-cuda; say --target ort-cpu"),
        ({"metric": "top1"}, r"--metric top1 is what --form auto tells of --data: give all three, or none"),
        ({"metric": "top1", "data": "d.npz", "form": "tanh"}, r"--metric top1 is what --form auto tells of --data"),
        ({"metric": "nothing", "data": "d.npz"}, r"no metric 'nothing'"),
        ({"form": "automatic"}, r"there are keep, auto, erf"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_measured(
    options: dict[str, str], words: str, races: Races, auto: Auto, tmp_path: Path
) -> None:
    asked = options | ({"data": str(tmp_path / options["data"])} if "data" in options else {})
    with pytest.raises(UsageError, match=words):
        auto(**asked)
    assert races == []


@pytest.mark.usefixtures("auto")
def test_the_lines_are_shown(
    took: dict[str, float], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    took["erf as contrib"] = 4.0
    monkeypatch.setenv("COLUMNS", "300")
    words = ["export", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "o.onnx"), "--form", "auto", "--no-cache"]
    assert main([*words, "--target", "ort-cpu"]) == 0
    shown = capfd.readouterr().out.splitlines()
    (first,) = [number for number, line in enumerate(shown) if line.startswith("form auto")]
    assert "erf as contrib in the place of erf as ops: 0.40 of its time" in shown[first]
    assert shown[first + 1].strip().startswith("no --max-form-error: the form stays")
    assert shown[first + 2].strip().startswith("measured: ")
    assert not (tmp_path / "cache").exists()

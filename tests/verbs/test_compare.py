"""``compare``: from a model to a folder that says which variant may ship."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from quantize_networks import Builder

import gelu_deploy
from gelu_deploy.comparison import latency
from gelu_deploy.errors import ModelError
from gelu_deploy.originals.exporting import BUILT_IN
from gelu_deploy.results import CompareResult, VariantResult
from gelu_deploy.timing.interleaved import Timing, Variant, timed
from gelu_deploy.verbs import variants

HERE = Path(__file__).parents[1]
MODELS = HERE.parent / "models"
DIGITS = MODELS / "digits_test.npz"
MLP = f"{MODELS / 'mlp.py'}:mlp"

Compare = Callable[..., CompareResult]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Times are made up, each variant a millisecond slower than the one before; the names of what was timed."""
    seen = list[str]()

    def made_up(variants: Sequence[Variant], _feeds: Mapping[str, Any], **_: Any) -> list[Timing]:
        seen.extend(one.name for one in variants)
        return [Timing(one.name, ((place + 1.0,) * 100,) * 7, {}, 10**8, 0) for place, one in enumerate(variants)]

    monkeypatch.setattr(latency, "timed", made_up)
    return seen


@pytest.fixture
def compare(small: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """The verb on ``m.onnx`` and ``d.npz`` of that folder, which is the working directory, without a ranking."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(small / "cache"))
    monkeypatch.chdir(small)
    monkeypatch.setitem(BUILT_IN, "dynamo", f"{HERE / 'cached.py'}:dynamo")

    def call(model: object = "m.onnx", **options: Any) -> CompareResult:
        return gelu_deploy.compare(model, **{"data": "d.npz", "sensitivity": False, **options})

    return call


def relu(path: Path, name: str = "x") -> None:
    """The same network with ReLU, and another name for its input."""
    made = Builder()
    x = ir.val(name, ir.DataType.FLOAT, ("n", 32))
    hidden = made.op("act", "Relu", made.linear("fc1", x, 32, 64))
    ir.save(made.model([x], made.linear("fc2", hidden, 64, 32)), path)


def rows(result: CompareResult) -> dict[str, VariantResult]:
    return {one["name"]: one for one in result["variants"]}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("clock")
def test_an_onnx_file_in_two_forms_and_its_twin(compare: Compare, small: Path) -> None:
    relu(small / "relu.onnx", "pixels")
    result = compare(twin="relu.onnx", form="tanh", max_size="1MB", sensitivity=True, time_budget=5.0)
    found = rows(result)
    assert list(found) == ["float", "float tanh", "int8", "int8 tanh", "twin float", "twin int8"]
    assert [one["form"] for one in found.values()] == ["erf", "tanh", "erf", "tanh", "relu", "relu"]
    against = {name: one["difference"]["against"] if one["difference"] else "" for name, one in found.items()}
    assert against == {"float": "", "float tanh": "float", "int8": "float", "int8 tanh": "float", "twin float": "",
                       "twin int8": "twin float"}  # fmt: skip
    assert (result["rows"], result["labelled"]) == (48, True)
    assert result["data"] == "d.npz"
    assert result["calibration"].startswith("a quarter of d.npz")
    assert found["float"]["file"] == "m.onnx"
    assert found["int8 tanh"]["integer_share"] == 1.0
    assert found["int8 tanh"]["kernels"] == {"Gelu": 1} or found["int8 tanh"]["kernels"] == {"FastGelu": 1}
    assert [one["variant"] for one in result["waterfalls"]] == ["int8", "int8 tanh", "twin int8"]
    assert [(one["family"], one["activation"]) for one in result["sites"]] == [("model", "erf"), ("twin", "relu")]
    assert all(one["grid"] is not None for one in result["sites"])
    assert [one["variant"] for one in result["sensitivity"]] == ["int8", "int8 tanh", "twin int8"]
    assert result["activation"] is not None
    assert result["activation"]["sentence"].startswith("INT8 costs GELU ")
    assert (result["decision"], result["verdict"]) == ("int8", "pass")
    assert [gate["variant"] for gate in result["gates"]] == ["int8", "int8 tanh"]
    made = files(small / "m.compare")
    assert {"float.tanh.onnx", "int8.onnx", "int8.tanh.onnx", "twin.int8.onnx", "report.html", "report.md"} < set(made)
    assert result["files"] == [f"m.compare/{name}" for name in made]
    assert json.loads((small / "m.compare" / "report.json").read_text())["schema"] == "gelu-deploy/compare/1"
    for name in ("int8", "int8 tanh"):
        with gelu_deploy.Session(small / found[name]["file"]) as session:
            assert session.provider == "cpu"


def test_a_network_of_pytorch_s_is_exported_and_timed_itself(compare: Compare, small: Path, clock: list[str]) -> None:
    x = np.random.default_rng(0).normal(size=(40, 64)).astype(np.float32)
    np.savez(small / "features.npz", x=x, labels=np.zeros(40, int))
    result = compare(MLP, data="features.npz", twin=MLP, twin_arch_arg="activation=relu", output="out", precision="w8")
    found = rows(result)
    assert list(found) == ["PyTorch", "float", "w8", "twin float", "twin w8"]
    assert clock == list(found)
    assert found["float"]["difference"] is not None
    assert found["float"]["difference"]["against"] == "PyTorch"
    assert found["float"]["sqnr"] > 100
    assert found["twin float"]["difference"] is None
    assert found["PyTorch"]["file"] == MLP
    assert not any(note.startswith("inputs:") for note in found["float"]["notes"])
    assert result["waterfalls"][0]["steps"][0]["name"] == "export"
    assert {"float.onnx", "twin.float.onnx"} < set(files(small / "out"))
    assert result["seconds"]["export"] > 0


@pytest.mark.usefixtures("clock")
def test_a_module_in_memory_has_no_process_of_its_own(compare: Compare, small: Path) -> None:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    np.savez(small / "plain.npz", input=np.random.default_rng(0).normal(size=(40, 32)).astype(np.float32))
    result = compare(module, data="plain.npz", precision="w8")
    found = rows(result)["PyTorch"]
    assert (found["latency"], found["memory"], found["bytes"], found["file"]) == (None, 0, 0, "")
    assert found["notes"] == ["a module in memory cannot be timed in a process of its own"]
    assert not result["labelled"]
    assert found["score"] is not None
    assert "Sequential.compare" in files(small)


@pytest.mark.usefixtures("clock")
def test_finished_files_are_compared_as_they_are(compare: Compare, small: Path) -> None:
    gelu_deploy.quantize("m.onnx", calib_data="d.npz", output="mine.onnx", tune=False, precision="w8")
    (small / "other").mkdir()
    relu(small / "other" / "m.onnx")
    result = compare(also=["mine.onnx", "other/m.onnx"], max_size="1MB", min_agreement="50%", precision="fp16")
    found = rows(result)
    assert list(found) == ["float", "fp16", "mine.onnx", "m.onnx"]
    assert {found["mine.onnx"]["family"], found["m.onnx"]["family"]} == {"also"}
    assert (found["mine.onnx"]["precision"], found["m.onnx"]["precision"]) == ("w8", "float")
    assert found["mine.onnx"]["integer_share"] == 1.0
    assert found["m.onnx"]["difference"] is not None
    assert found["m.onnx"]["difference"]["against"] == "float"
    assert {gate["variant"] for gate in result["gates"]} == {"fp16", "mine.onnx"}


@pytest.mark.usefixtures("clock")
def test_a_budget_that_fails_is_named_with_what_was_measured(compare: Compare) -> None:
    result = compare(max_p99=1.5, max_size="1GB", max_drop="0.1%", precision="w8")
    assert (result["decision"], result["verdict"]) == ("w8", "fail")
    assert result["reason"].startswith("w8 fails max-p99: 2 ms, at most 1.5 allowed; not to be told yet: max-drop: ")
    assert "48 rows are too few, very roughly" in result["reason"]
    assert [gate["verdict"] for gate in result["gates"]] == ["cannot tell", "fail", "pass"]
    assert compare(max_drop="0.1%", precision="w8", overwrite=True)["verdict"] == "cannot tell"


@pytest.mark.usefixtures("clock")
def test_what_cannot_be_quantized_is_a_row_with_its_reason(
    compare: Compare, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = variants.quantize  # type: ignore[attr-defined]  # it is imported there

    def broken(model: str, options: Any, data: Any) -> Any:
        if "tanh" in model:
            raise ModelError("nothing to quantize")
        return real(model, options, data)

    monkeypatch.setattr(variants, "quantize", broken)
    result = compare(form="tanh", precision="w8")
    found = rows(result)["w8 tanh"]
    assert (found["file"], found["notes"], found["score"], found["bytes"]) == ("", ["nothing to quantize"], None, 0)
    assert [(one["variant"], one["gate"], one["verdict"]) for one in result["gates"]] == [
        ("w8 tanh", "quantize", "fail")
    ]
    assert (result["decision"], result["verdict"]) == ("w8", "pass")
    assert "w8.tanh.onnx" not in files(small / "m.compare")


@pytest.mark.usefixtures("clock")
def test_without_labels_the_float_file_is_right_and_the_twin_has_no_score(compare: Compare, small: Path) -> None:
    relu(small / "relu.onnx")
    result = compare(data="plain.npz", calib_data="d.npz", twin="relu.onnx", form="erf", precision="w8")
    found = rows(result)
    assert (result["rows"], result["labelled"], result["calibration"]) == (64, False, "d.npz")
    assert found["float"]["score"] is not None
    assert found["float"]["score"]["value"] == 1.0
    assert found["twin float"]["score"] is found["twin w8"]["score"] is None
    assert result["activation"] is None
    assert found["twin w8"]["agreement"] > 0.5
    assert [note for note in result["notes"] if "labels" in note or "erf" in note] == [
        "--form erf makes no other variant: all GELUs of the model are erf already",
        "without labels the twin has no score: the float model's own answers say nothing of another network's",
    ]


@pytest.mark.usefixtures("clock")
def test_several_precisions_and_a_metric_of_one_s_own(compare: Compare, small: Path) -> None:
    (small / "mine.py").write_text("def loud(outputs, labels, inputs):\n    return abs(outputs['y']).mean(axis=1)\n")
    result = compare(precision=["w8", "int8"], metric="mine.py:loud", max_drop="3")
    assert list(rows(result)) == ["float", "w8", "int8"]
    assert result["metric"] == {"name": "mine.py:loud", "higher_is_better": True, "percent": False}
    assert result["gates"][0]["reason"].endswith("mine.py:loud lost, at most 3 allowed")
    assert result["verdict"] == "pass"


@pytest.mark.usefixtures("small")
def test_variants_are_timed_in_turns_with_the_model_s_names(compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    relu(Path("relu.onnx"), "pixels")
    monkeypatch.setattr(latency, "timed", lambda variants, feeds, **_: timed(variants, feeds, rounds=2, runs=2))
    result = compare(twin="relu.onnx", max_memory="1GB", time_budget=1.0)
    for one in result["variants"]:
        assert one["latency"] is not None
        assert one["latency"]["p50"] > 0
        assert 2e7 < one["memory"] < 1e9
    assert result["verdict"] == "pass"
    assert result["machine"]["threads"].isdigit()


@pytest.mark.slow
def test_the_digits_transformer_and_its_twin_in_one_command(tmp_path: Path) -> None:
    arch = f"{MODELS / 'digits_vit.py'}:digits_vit"
    result = gelu_deploy.compare(
        MODELS / "digits_vit.pt",
        arch=arch,
        twin=MODELS / "digits_vit_relu.pt",
        twin_arch_arg="activation=relu",
        data=DIGITS,
        form="tanh",
        max_drop="2%",
        max_size="0.3MB",
        min_agreement="98%",
        output=tmp_path / "out",
    )
    found = rows(result)
    assert list(found) == ["PyTorch", "float", "float tanh", "int8", "int8 tanh", "twin float", "twin int8"]
    assert result["verdict"] == "pass"
    assert all(one["score"] is not None and one["score"]["value"] > 0.97 for one in found.values())
    assert found["int8"]["sqnr"] > 38
    assert found["PyTorch"]["latency"] is not None
    assert found["PyTorch"]["memory"] > found["float"]["memory"]
    assert len(result["sites"]) == 8
    assert [one["variant"] for one in result["sensitivity"]] == ["int8", "int8 tanh", "twin int8"]
    assert result["activation"] is not None
    assert "is not told from zero" in result["activation"]["sentence"]
    assert all(Path(file).is_file() for file in result["files"])

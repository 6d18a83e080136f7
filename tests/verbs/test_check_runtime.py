"""``check --runtime``: the same proof in another runtime, and the form that each GELU is really computed as there."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

import gelu_deploy
from gelu_deploy import artifact
from gelu_deploy.cli import main
from gelu_deploy.errors import ModelError, SetupError, UsageError

HERE = Path(__file__).parents[1]
MODELS = HERE.parent / "models"
PACKAGES = {"openvino": "openvino", "opencv": "cv2", "tract": "tract", "mnn": "MNN"}


def needs(name: str) -> None:
    if find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


def exported(folder: Path, form: str, spelling: str) -> Path:
    file = folder / f"{form}-{spelling}.onnx"
    if not file.is_file():
        gelu_deploy.export(
            str(MODELS / "digits_vit.pt"),
            arch=f"{MODELS / 'digits_vit.py'}:digits_vit",
            output=str(file),
            exporter=f"{HERE / 'cached.py'}:dynamo",
            form=form,
            spelling=spelling,
        )
    return file


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize(("form", "spelling"), [("erf", "ops"), ("tanh", "sigmoid3")])
def test_what_every_runtime_computes_as_written_passes(name: str, form: str, spelling: str, folder: Path) -> None:
    needs(name)
    result = gelu_deploy.check(exported(folder, form, spelling), runtime=name)
    assert (result["verdict"], result["reason"]) == ("pass", "")
    assert result["provider"].startswith(f"{name} ")
    assert [stage["name"] for stage in result["stages"]] == ["runtime"]
    assert len(result["sites"]) == 4
    for site in result["sites"]:
        assert (site["computed"]["form"], site["computed"]["how"]) == (form, "in the network")
        assert site["computed"]["error"] < 2e-6
        assert site["kernels"] == []


@pytest.mark.parametrize(
    ("name", "form", "computed", "way_out"), [("mnn", "erf", "tanh", "ops"), ("opencv", "tanh", "erf", "sigmoid3")]
)
def test_a_form_that_is_computed_as_another_fails(
    name: str, form: str, computed: str, way_out: str, folder: Path
) -> None:
    needs(name)
    result = gelu_deploy.check(exported(folder, form, "gelu"), runtime=name, atol="0.01")
    assert result["stages"][0]["passed"], "the outputs alone are within this tolerance"
    assert result["verdict"] == "fail"
    assert result["reason"] == (
        f"blocks.0.mlp.act and 3 more are written as {form} and {name} computes {computed} (4.7e-04 off {form}); "
        f"--spelling {way_out} is computed as written there"
    )
    assert {site["computed"]["form"] for site in result["sites"]} == {computed}


def test_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs("mnn")
    assert main(["check", str(exported(folder, "erf", "ops")), "--runtime", "mnn"]) == 0
    table = capsys.readouterr().out
    assert "computed as" in table
    assert "erf, in the network" in table
    assert "kernel" not in table
    assert main(["check", str(exported(folder, "erf", "gelu")), "--runtime", "mnn", "--json", "-"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["sites"][0]["computed"]["form"] == "tanh"
    assert said["reason"].split("; ")[-1].startswith("runtime broke parity: output_0 is off by")


def test_against_the_original_there_too(folder: Path) -> None:
    needs("tract")
    file = exported(folder, "erf", "ops")
    original = {"against": str(MODELS / "digits_vit.pt"), "arch": f"{MODELS / 'digits_vit.py'}:digits_vit"}
    result = gelu_deploy.check(file, runtime="tract", **original)
    assert result["verdict"] == "pass"
    assert result["notes"][0].startswith("against digits_vit.pt")


def test_a_runtime_that_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs("opencv")
    file = exported(folder, "tanh", "contrib")
    with pytest.raises(ModelError, match=r"^opencv refuses the model: .*FastGelu"):
        gelu_deploy.check(file, runtime="opencv")
    assert main(["check", str(file), "--runtime", "opencv"]) == ModelError.exit_code
    assert "FastGelu" in capsys.readouterr().err


def test_a_runtime_that_is_not_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cv2.py").write_text("raise ModuleNotFoundError(\"No module named 'cv2'\")\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["check", str(exported(folder, "erf", "ops")), "--runtime", "opencv"]) == SetupError.exit_code
    said = capsys.readouterr().err
    assert "the runtime opencv is not installed (No module named 'cv2'): pip install 'gelu-deploy[opencv]'" in said


def test_what_cannot_be_meant(folder: Path, tmp_path: Path) -> None:
    file = exported(folder, "erf", "ops")
    with pytest.raises(UsageError, match="'runtime' got 'tvm'; expected 'openvino' or 'opencv' or 'tract' or 'mnn'"):
        gelu_deploy.check(file, runtime="tvm")
    assert main(["check", str(file), "--runtime", "tvm"]) == UsageError.exit_code
    with pytest.raises(UsageError, match="--provider cuda is one of ONNX Runtime's; leave it out with --runtime"):
        gelu_deploy.check(file, runtime="tract", provider="cuda")
    with pytest.raises(UsageError, match=r"--atol nothing:0\.1: there is no such output; they are output_0"):
        gelu_deploy.check(file, runtime="tract", atol="nothing:0.1")
    foreign = onnx.load(file)
    del foreign.metadata_props[:]
    onnx.save(foreign, tmp_path / "foreign.onnx")
    assert artifact.verify(tmp_path / "foreign.onnx") == {}
    with pytest.raises(UsageError, match="has no golden data saved with it"):
        gelu_deploy.check(tmp_path / "foreign.onnx", runtime="tract")

"""``check``: a finished file proved again, without PyTorch; a file that was changed is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import real_models
from onnx import numpy_helper

import gelu_deploy
from gelu_deploy import artifact
from gelu_deploy.errors import ModelError, SetupError, UsageError

HERE = Path(__file__).parents[1]
ROOT = HERE.parent
CONVNEXT = str(ROOT / "models" / "convnext.py:convnext")
CHANGED = "does not match its own digest.*remove its gelu_deploy"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("check")


@pytest.fixture(scope="module")
def convnext(folder: Path) -> Path:
    file = folder / "convnext.onnx"
    cached = f"{HERE / 'cached.py'}:dynamo"
    gelu_deploy.export(CONVNEXT, output=str(file), exporter=cached, form="tanh", spelling="ops")
    return file


@pytest.fixture(scope="module")
def magika(folder: Path) -> Path:
    file = folder / "magika.onnx"
    gelu_deploy.export(str(real_models.magika()), output=str(file), spelling="ops")
    return file


def mutated(file: Path, output: Path) -> onnx.ModelProto:
    """The file with 0.05 in the place of 0.044715 in its first site, saved as any tool would."""
    proto = onnx.load(file)
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    node, slot = next(
        (node, slot)
        for node in proto.graph.node
        for slot, name in enumerate(node.input)
        if name in held and held[name].shape == () and abs(float(held[name]) - 0.044715) < 1e-6
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.array(0.05, np.float32), "wrong"))
    node.input[slot] = "wrong"
    for companion in artifact.verify(file)["files"]:
        shutil.copy(file.with_name(companion), output.with_name(companion))
    onnx.save(proto, output)
    return proto


def foreign(proto: onnx.ModelProto, output: Path) -> str:
    """The model without what gelu_deploy says of it."""
    kept = [entry for entry in proto.metadata_props if not entry.key.startswith("gelu_deploy.")]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    onnx.save(proto, output)
    return str(output)


def sealed_anew(file: Path, output: Path) -> str:
    """The changed model with the golden data and the sites of the file that it was, and a digest of its own."""
    said = {key: value for key, value in artifact.verify(file).items() if key not in ("files", "digest")}
    with artifact.stage(output) as stage:
        stage.write(ir.load(output.with_name("changed.onnx")), said, cases=artifact.cases(file))
        stage.publish({})
    return str(output)


@pytest.mark.parametrize("network", ["convnext", "magika"])
def test_a_wrong_constant_is_refused_then_a_near_miss_then_a_failed_site(
    network: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file: Path = request.getfixturevalue(network)
    assert gelu_deploy.check(file)["verdict"] == "pass"
    proto = mutated(file, tmp_path / "changed.onnx")
    for verb in (gelu_deploy.check, gelu_deploy.inspect, gelu_deploy.Session):
        with pytest.raises(ModelError, match=CHANGED):
            verb(tmp_path / "changed.onnx")

    stripped = foreign(proto, tmp_path / "foreign.onnx")
    found = gelu_deploy.inspect(stripped)
    assert len(found["sites"]) == 1
    (miss,) = found["near_misses"]
    assert (miss["form"], miss["reason"].startswith("GELU-like, off by")) == ("tanh", True)
    with pytest.raises(UsageError, match=r"foreign\.onnx has no golden data saved with it; .*--against"):
        gelu_deploy.check(stripped)
    against = gelu_deploy.check(stripped, against=str(file))
    assert "near misses, which are not judged: 1; inspect lists them" in against["notes"]
    assert len(against["sites"]) == 1

    result = gelu_deploy.check(sealed_anew(file, tmp_path / "sealed.onnx"))
    outputs, inner = result["stages"]
    assert result["verdict"] == "fail"
    assert not inner["passed"]
    if network == "convnext":
        assert result["reason"].startswith("sites broke parity")
        assert outputs["max_abs"] < 1e-6, "the outputs alone do not see it"


def test_against_the_original_of_today(convnext: Path) -> None:
    result = gelu_deploy.check(convnext, against=CONVNEXT)
    assert result["verdict"] == "pass"
    assert result["notes"][0].startswith("against ")
    assert [stage["name"] for stage in result["stages"]] == ["original", "runtime", "sites"]


def test_against_another_original_it_fails(convnext: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(
        "import torch\n"
        "class Other(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x + 0.01\n"
        "def example_inputs():\n    return torch.zeros(2, 32, 14, 14)\n"
    )
    result = gelu_deploy.check(convnext, against=f"{tmp_path}/other.py:Other")
    assert result["verdict"] == "fail"
    assert result["reason"].startswith("original broke parity: output_0 is off by")
    loose = gelu_deploy.check(convnext, against=f"{tmp_path}/other.py:Other", atol="0.1")
    assert loose["verdict"] == "pass"


def test_against_what_does_not_fit(convnext: Path, tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(
        "import torch\n"
        "class Two(torch.nn.Module):\n    def forward(self, a, b):\n        return a + b\n"
        "class Pair(torch.nn.Module):\n    def forward(self, x):\n        return x, x\n"
    )
    with pytest.raises(UsageError, match="the original takes a, b; the file takes x"):
        gelu_deploy.check(convnext, against=f"{tmp_path}/two.py:Two", input=("a:2x3", "b:2x3"))
    with pytest.raises(UsageError, match="the original has the outputs output_0, output_1; the file has output_0"):
        gelu_deploy.check(convnext, against=f"{tmp_path}/two.py:Pair", input="x:2x32x14x14")


def test_a_tolerance_of_ones_own(magika: Path) -> None:
    strict = gelu_deploy.check(magika, atol="1e-12")
    assert (strict["verdict"], strict["reason"].startswith("runtime broke parity")) == ("fail", True)
    assert gelu_deploy.check(magika, atol="1e-12", rtol="1e-5")["verdict"] == "pass"
    with pytest.raises(UsageError, match="--atol few"):
        gelu_deploy.check(magika, atol="few")


def test_golden_data_that_are_gone_or_changed(convnext: Path, tmp_path: Path) -> None:
    for file in convnext.parent.glob("convnext*"):
        shutil.copy(file, tmp_path / file.name)
    (golden,) = tmp_path.glob("*.golden.npz")
    whole = golden.read_bytes()
    golden.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelError, match=rf"{golden.name} is damaged"):
        gelu_deploy.check(tmp_path / "convnext.onnx")
    golden.unlink()
    with pytest.raises(ModelError, match=rf"{golden.name} is missing"):
        gelu_deploy.check(tmp_path / "convnext.onnx")


WITHOUT_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "onnxscript", "transformers", "safetensors"}:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import json
import gelu_deploy

model, data, output = sys.argv[1:]
check, found = gelu_deploy.check(model), gelu_deploy.inspect(model)
ran = gelu_deploy.run(model, data=data, output=output)
print(json.dumps([check["verdict"], [site["kernels"] for site in found["sites"]], ran["outputs"][0]["name"]]))
"""


def test_check_inspect_and_run_need_no_torch(convnext: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 32, 14, 14), np.float32))
    arguments = [str(convnext), str(tmp_path / "x.npz"), str(tmp_path / "y.npz")]
    command = [sys.executable, "-c", WITHOUT_TORCH, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["pass", [["FastGelu"], ["FastGelu"]], "output_0"]
    assert (tmp_path / "y.npz").is_file()


def test_against_a_pytorch_file_without_torch_says_what_to_install(
    convnext: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelu_deploy.originals.find_spec", lambda _: None)
    with pytest.raises(SetupError, match=r"pip install 'gelu-deploy\[torch\]'"):
        gelu_deploy.check(convnext, against=CONVNEXT)


@pytest.mark.slow
def test_a_host_that_only_serves_installs_no_torch(convnext: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("gelu_deploy", "exporters"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, capture_output=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    pins = str(ROOT / "scripts" / "constraints.txt")
    install = [python, "-m", "pip", "install", "-q", "-c", pins, f"{wheel}[cpu]"]
    subprocess.run(install, check=True, capture_output=True)

    def answered(*arguments: str) -> Any:
        command = [python, "-m", "gelu_deploy", *arguments, "--json", "-"]
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=plain)
        return json.loads(done.stdout)

    np.savez(tmp_path / "x.npz", x=np.zeros((1, 32, 14, 14), np.float32))
    listed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert "torch" not in listed
    assert answered("doctor")["verdict"] == "pass"
    assert answered("check", str(convnext))["verdict"] == "pass"
    assert [site["kernels"] for site in answered("inspect", str(convnext))["sites"]] == [["FastGelu"], ["FastGelu"]]
    assert answered("run", str(convnext), "--data", "x.npz", "-o", "y.npz")["files"]
    refused = subprocess.run(
        [python, "-m", "gelu_deploy", "export", CONVNEXT], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert refused.returncode == 7
    assert "gelu-deploy[torch]" in refused.stderr

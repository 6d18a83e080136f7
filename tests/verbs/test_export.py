"""``export`` on the reference networks: every form, operator set and exporter, down to the kernels."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import gelu_deploy
from gelu_deploy.errors import OutputError, UsageError

HERE = Path(__file__).parents[1]
MODELS = HERE.parent / "models"
DIGITS = {"arch": str(MODELS / "digits_vit.py:digits_vit")}
EXPORTERS = ("dynamo", "torchscript")


def exported(target: Path | str, output: Path, exporter: str = "dynamo", **options: Any) -> Any:
    if exporter in EXPORTERS:
        exporter = f"{HERE / 'cached.py'}:{exporter}"
    return gelu_deploy.export(str(target), output=str(output), exporter=exporter, **options)


def accuracy(model: Path) -> float:
    data = np.load(MODELS / "digits_test.npz")
    logits = gelu_deploy.Session(model)({"x": data["x"]})
    return float((next(iter(logits.values())).argmax(1) == data["labels"]).mean())


@pytest.fixture(scope="module")
def original_accuracy() -> float:
    import torch

    from gelu_deploy.target import load

    network = load(DIGITS["arch"])()
    network.load_state_dict(torch.load(MODELS / "digits_vit.pt", weights_only=True))
    data = np.load(MODELS / "digits_test.npz")
    with torch.no_grad():
        logits = network.eval()(torch.from_numpy(data["x"]))
    return float((logits.argmax(1).numpy() == data["labels"]).mean())


@pytest.mark.parametrize(
    ("form", "opset", "exporter"),
    [
        pytest.param(form, opset, exporter, marks=[pytest.mark.wide] if number % 3 else [])  # a third is quick
        for number, (form, opset, exporter) in enumerate(
            itertools.product(["keep", "erf", "tanh", "sigmoid"], [17, 23, 20], reversed(EXPORTERS))
        )
    ],
)
def test_digits_in_every_form(form: Any, opset: int, exporter: str, tmp_path: Path, original_accuracy: float) -> None:
    output = tmp_path / "digits.onnx"
    result = exported(MODELS / "digits_vit.pt", output, exporter, form=form, opset=opset, **DIGITS)
    assert result["verdict"] == "pass", result["reason"]
    assert result["opset"] == opset == onnx.load(output).opset_import[0].version
    assert all(stage["passed"] for stage in result["stages"])

    found = gelu_deploy.inspect(output)["sites"]
    assert [len(site["kernels"]) for site in found] == [1] * len(found)
    assert [site["module"] for site in found] == [f"blocks.{n}.mlp.act" for n in range(len(found))]
    assert {site["form"] for site in found} == {"erf" if form == "keep" else form}
    assert len(gelu_deploy.Session(output).kernels()) == len(found) > 1
    if form != "sigmoid":
        assert abs(accuracy(output) - original_accuracy) <= 0.001
    assert gelu_deploy.check(output)["verdict"] == "pass"


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("name", ["ffn", "attention_gelu", "mlp", "convnext", "geglu"])
def test_reference_networks(name: str, opset: int, exporter: str, tmp_path: Path) -> None:
    result = exported(f"{MODELS / name}.py:{name}", tmp_path / "m.onnx", exporter, opset=opset)
    assert result["verdict"] == "pass", result["reason"]
    assert result["opset"] == opset
    assert result["sites"]
    for site in result["sites"]:
        assert len(site["kernels"]) == 1, site["reason"]
        assert site["module"]
    batches = {case["x"].split("x")[0] for case in result["cases"]}
    assert batches == {"1", "2", "3"}


def test_a_tanh_gelu_that_is_an_output_is_reported_and_contrib_closes_it(tmp_path: Path) -> None:
    arch = tmp_path / "last.py"
    arch.write_text(
        "import torch\n"
        "def last():\n    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(approximate='tanh'))\n"
        "def example_inputs():\n    return torch.zeros(2, 4)\n"
    )
    opened = exported(f"{arch}:last", tmp_path / "open.onnx", opset=17)
    assert opened["verdict"] == "pass"
    assert len(opened["sites"][0]["kernels"]) > 1
    assert "--spelling contrib" in opened["sites"][0]["reason"]
    closed = exported(f"{arch}:last", tmp_path / "closed.onnx", opset=17, spelling="contrib")
    assert closed["sites"][0]["kernels"] == ["FastGelu"]


def test_a_change_of_form_is_a_line_of_its_own_and_gated_only_when_asked(tmp_path: Path) -> None:
    result = exported(MODELS / "digits_vit.pt", tmp_path / "m.onnx", form="sigmoid", **DIGITS)
    (line,) = [stage for stage in result["stages"] if stage["name"] == "form erf -> sigmoid"]
    assert line["max_abs"] > 1e-4
    assert result["verdict"] == "pass"
    gated = exported(
        MODELS / "digits_vit.pt", tmp_path / "n.onnx", form="sigmoid", max_form_error=line["max_abs"] / 2, **DIGITS
    )
    assert gated["verdict"] == "fail"
    assert "--max-form-error" in gated["reason"]
    assert not (tmp_path / "n.onnx").exists()
    check = gelu_deploy.check(tmp_path / "m.onnx", against=str(MODELS / "digits_vit.pt"), **DIGITS)
    assert check["verdict"] == "pass"


def test_excluded_modules_keep_their_form(tmp_path: Path) -> None:
    result = exported(MODELS / "digits_vit.pt", tmp_path / "m.onnx", form="tanh", exclude="blocks.0.*", **DIGITS)
    assert result["verdict"] == "pass"
    assert [site["form"] for site in result["sites"]] == ["erf"] + ["tanh"] * (len(result["sites"]) - 1)


def test_names_axes_and_types_are_what_was_asked_for(tmp_path: Path) -> None:
    result = exported(
        f"{MODELS / 'ffn.py'}:ffn",
        tmp_path / "m.onnx",
        dynamic="x:1=seq",
        input_names="tokens",
        output_names="hidden",
        dtype="float32",
    )
    assert result["verdict"] == "pass"
    assert list(result["inputs"]) == ["tokens"]
    assert result["inputs"]["tokens"].startswith("batch x seq x")
    assert list(result["outputs"]) == ["hidden"]
    assert len({case["tokens"].split("x")[1] for case in result["cases"]}) > 1


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        exported(MODELS / "digits_vit.pt", folder / "m.onnx", **DIGITS)
    assert (first / "m.onnx").read_bytes() == (second / "m.onnx").read_bytes()


def test_nothing_of_this_machine_is_in_the_file(tmp_path: Path) -> None:
    exported(MODELS / "digits_vit.pt", tmp_path / "m.onnx", **DIGITS)
    written = (tmp_path / "m.onnx").read_bytes()
    for word in (str(MODELS.parent), str(tmp_path), str(Path.home()) + "/", "stack_trace", "site-packages"):
        assert word.encode() not in written, word


def test_metadata_says_what_was_done(tmp_path: Path) -> None:
    exported(MODELS / "digits_vit.pt", tmp_path / "m.onnx", form="tanh", **DIGITS)
    held = {entry.key: entry.value for entry in onnx.load(tmp_path / "m.onnx").metadata_props}
    provenance = json.loads(held["gelu_deploy.provenance"])
    assert provenance["options"]["form"] == "tanh"
    assert provenance["versions"]["torch"].startswith("2.")
    assert len(provenance["input_sha256"]) == 64
    assert json.loads(held["gelu_deploy.verdict"])["verdict"] == "pass"


def test_existing_output_is_not_touched_and_dry_run_writes_nothing(tmp_path: Path) -> None:
    output = tmp_path / "m.onnx"
    output.write_text("mine")
    with pytest.raises(OutputError, match="--overwrite"):
        exported(MODELS / "digits_vit.pt", output, **DIGITS)
    assert exported(MODELS / "digits_vit.pt", output, dry_run=True, **DIGITS)["verdict"] == "pass"
    assert output.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
    assert exported(MODELS / "digits_vit.pt", output, overwrite=True, **DIGITS)["files"][-1] == str(output)


def test_external_data_above_the_threshold(tmp_path: Path) -> None:
    result = exported(MODELS / "digits_vit.pt", tmp_path / "m.onnx", external_data_threshold=1000.0, **DIGITS)
    assert any(name.endswith(".data") for name in result["files"])
    assert gelu_deploy.check(tmp_path / "m.onnx")["verdict"] == "pass"


def test_an_onnx_source_needs_its_output_said(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Gelu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.pt")
    with pytest.raises(UsageError, match=r"m\.pt is ONNX already: say with -o OUT"):
        gelu_deploy.export(str(tmp_path / "m.pt"))


def test_a_module_in_memory(tmp_path: Path) -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    result = gelu_deploy.export(network, output=str(tmp_path / "m.onnx"), input="input:2x4:float32")
    assert result["verdict"] == "pass"
    assert [site["module"] for site in result["sites"]] == ["1"]

"""``export --target``: what is written for each, and what is refused before anything is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

import gelu_deploy
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.targets import TARGETS

HERE = Path(__file__).parents[1]
MODELS = HERE.parent / "models"
USABLE = ["ort-cpu", "ort-cuda", "openvino", "opencv", "mnn", "tract", "ort-web", "portable-13"]


def exported(output: Path, target: str, **options: Any) -> Any:
    return gelu_deploy.export(
        str(MODELS / "digits_vit.pt"),
        arch=str(MODELS / "digits_vit.py:digits_vit"),
        output=str(output),
        exporter=f"{HERE / 'cached.py'}:dynamo",
        target=target,
        **options,
    )


@pytest.mark.parametrize("form", ["keep", "tanh"])
@pytest.mark.parametrize("name", USABLE)
def test_digits_for_every_target(name: str, form: str, tmp_path: Path) -> None:
    target, output = TARGETS[name], tmp_path / "m.onnx"
    result = exported(output, name, form=form)
    assert result["verdict"] == "pass", result["reason"]
    assert result["target"] == name
    assert result["opset"] == target.opset
    written = "erf" if form == "keep" else form
    assert {tuple(site["written"].values()) for site in result["sites"]} == {
        (written, target.spelling(written, target.opset))
    }
    assert f"target {name}: {written} is written as {target.spelling(written, target.opset)}" in result["notes"]
    file = onnx.load(output)
    assert [(entry.domain, entry.version) for entry in file.opset_import if entry.domain == ""] == [("", target.opset)]
    assert all(target.takes(node.op_type, node.domain) for node in file.graph.node)
    held = {entry.key: entry.value for entry in file.metadata_props}
    assert json.loads(held["gelu_deploy.provenance"])["options"]["target"] == name


ATTENTION = """
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.act = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        *heads, last = self.parts
        q, k, v = (part(x).unflatten(-1, (2, 8)).transpose(1, 2) for part in heads)
        return self.act(last(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))


example_inputs = (torch.zeros(2, 5, 16),)
"""


def test_attention_for_ort_cpu_is_one_operator_that_is_proved_and_counted(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(ATTENTION)
    plain, file = str(tmp_path / "plain.onnx"), str(tmp_path / "m.onnx")
    gelu_deploy.export(f"{tmp_path / 'net.py'}:Block", output=plain)
    assert {node.domain for node in onnx.load(plain).graph.node} == {""}
    result = gelu_deploy.export(f"{tmp_path / 'net.py'}:Block", output=file, target="ort-cpu")
    assert result["verdict"] == "pass", result["reason"]
    assert [stage["name"] for stage in result["stages"]][-3:] == ["attention", "runtime", "sites"]
    ops = [node.op_type for node in onnx.load(file).graph.node]
    assert ops.count("MultiHeadAttention") == 1
    assert {"Attention", "Softmax", "Transpose"}.isdisjoint(ops)
    quantized = gelu_deploy.quantize(file, random_calibration=True, output=str(tmp_path / "i.onnx"), tune=False)
    (product,) = [one for one in quantized["layers"] if one["op"] == "MultiHeadAttention"]
    assert product["macs"] == 2 * 5 * 5 * 16
    assert quantized["integer_share"] == 4 * 16 / (4 * 16 + 2 * 5)


def test_portable_has_nothing_newer_and_still_its_modules(tmp_path: Path) -> None:
    exported(tmp_path / "m.onnx", "portable-13")
    file = onnx.load(tmp_path / "m.onnx")
    assert file.ir_version == 7
    assert {node.domain for node in file.graph.node} == {""}
    assert all(onnx.defs.has(node.op_type, 13) for node in file.graph.node)
    modules = [{entry.key: entry.value for entry in node.metadata_props} for node in file.graph.node]
    assert sum("gelu_deploy.module" in held for held in modules) >= 0.95 * len(modules)


@pytest.mark.parametrize("form", ["tanh", "sigmoid"])
def test_rknn_has_no_erf_and_takes_the_others(form: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Erf in blocks\.0\.mlp\.act \(.*not an operator of rknn: say --form tanh or"):
        exported(tmp_path / "m.onnx", "rknn")
    assert list(tmp_path.iterdir()) == []
    result = exported(tmp_path / "m.onnx", "rknn", form=form)
    assert result["verdict"] == "pass"
    assert any("9 LayerNormalization written out for rknn" in note for note in result["notes"])
    assert any("was not tried here" in note for note in result["notes"])


def test_tensorrt_gets_normalizations_that_stay_apart(tmp_path: Path) -> None:
    assert exported(tmp_path / "m.onnx", "tensorrt")["verdict"] == "pass"
    assert "LayerNormalization" not in {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("mnn", {"spelling": "gelu", "opset": 20}, r"mnn computes erf written as gelu as tanh, in blocks\.0\.mlp\.act"),
        ("opencv", {"spelling": "gelu", "opset": 20, "form": "tanh"}, "opencv computes tanh written as gelu as erf"),
        ("tensorrt", {"opset": 20}, "--opset 20: tensorrt takes 17 at most"),
        ("tensorflow", {}, "--target tensorflow: there is no such target"),
    ],
)
def test_what_cannot_be_meant(target: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        exported(tmp_path / "m.onnx", target, **options)


def test_an_onnx_file_keeps_its_opset_where_the_target_takes_it(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[n, 4] x) => (float[n, 4] y) { y = Gelu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    for target, opset in (("mnn", 20), ("tensorrt", 17)):
        result = gelu_deploy.export(tmp_path / "m.onnx", output=str(tmp_path / f"{target}.onnx"), target=target)
        assert (result["verdict"], result["opset"]) == ("pass", opset)
        assert result["sites"][0]["written"] == {"form": "erf", "spelling": "ops"}

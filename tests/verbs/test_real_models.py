"""Models that nobody here wrote, from file to proved file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import real_models

import gelu_deploy


def single(result: Any, sites: int, form: str) -> None:
    assert result["verdict"] == "pass", result["reason"]
    assert [site["form"] for site in result["sites"]] == [form] * sites
    assert [len(site["kernels"]) for site in result["sites"]] == [1] * sites, result["sites"]


@pytest.mark.parametrize("opset", [20, pytest.param(23, marks=pytest.mark.wide)])
@pytest.mark.parametrize(
    ("name", "form", "module"),
    [
        ("bert", "erf", "encoder.layer.{}.intermediate.intermediate_act_fn"),
        ("vit", "erf", "vit.layers.{}.mlp.activation_fn"),
        ("gpt2", "tanh", "transformer.h.{}.mlp.act"),
        ("clip_text", "sigmoid", "encoder.layers.{}.mlp.activation_fn"),
    ],
)
def test_transformers(name: Any, form: str, module: str, opset: int, tmp_path: Path) -> None:
    folder = real_models.transformers_folder(name, tmp_path / name)
    result = gelu_deploy.export(str(folder), output=str(tmp_path / "m.onnx"), opset=opset)
    single(result, 2, form)
    assert result["exporter"] == "dynamo"
    assert result["opset"] == opset
    assert [site["module"] for site in result["sites"]] == [module.format(n) for n in range(2)]
    assert {next(iter(case.values())).split("x")[0] for case in result["cases"]} == {"1", "2", "3"}
    assert all(shape.startswith("batch") for shape in result["inputs"].values())


def test_magika_becomes_two_kernels_where_the_runtime_alone_fuses_none(tmp_path: Path) -> None:
    before = gelu_deploy.inspect(real_models.magika())["sites"]
    assert [len(site["kernels"]) > 1 for site in before] == [True, True]
    result = gelu_deploy.export(str(real_models.magika()), output=str(tmp_path / "m.onnx"), form="keep")
    single(result, 2, "tanh")
    (runtime,) = [stage for stage in result["stages"] if stage["name"] == "runtime"]
    assert runtime["max_abs"] <= 1e-5


@pytest.mark.parametrize("name", ["rec", "det"])
def test_ppocr_keeps_its_thirteen_gelus_through_the_simplifier(name: Any, tmp_path: Path) -> None:
    result = gelu_deploy.export(str(real_models.ppocr(name)), output=str(tmp_path / "m.onnx"))
    single(result, 13, "erf")
    assert result["opset"] == 11
    assert any("onnxsim removed" in note for note in result["notes"])
    for opset in (17, 20):
        other = gelu_deploy.export(str(real_models.ppocr(name)), output=str(tmp_path / f"{opset}.onnx"), opset=opset)
        single(other, 13, "erf")
        assert other["opset"] == opset


def test_nodes_of_bert_keep_their_module_names(tmp_path: Path) -> None:
    folder = real_models.transformers_folder("bert", tmp_path / "bert")
    gelu_deploy.export(str(folder), output=str(tmp_path / "m.onnx"))
    nodes = list(ir.load(tmp_path / "m.onnx").graph)
    modules = [node.metadata_props.get("gelu_deploy.module", "") for node in nodes]
    assert len([module for module in modules if module]) >= 0.95 * len(nodes) > 20
    below = ("(root)", "embeddings", "encoder.layer.", "pooler")
    assert {module for module in modules if module and not module.startswith(below)} == set()

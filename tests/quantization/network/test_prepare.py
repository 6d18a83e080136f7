"""Any ONNX file made ready for INT8: it answers as before, and every layer and every GELU is what the recipe needs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import real_models
from graphs import model, op, sigmoid
from ready_networks import RANDOM, B, V, W, again, block, inner, linear, ops, ready, saved

import gelu_deploy
from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.quantization.network.layers import measured

HERE = Path(__file__).resolve().parents[2]
MODELS = HERE.parent / "models"


def exported(source: Path | str, folder: Path, **options: Any) -> str:
    options.setdefault("exporter", f"{HERE / 'cached.py'}:dynamo")
    result = gelu_deploy.export(str(source), output=str(folder / "exported.onnx"), **options)
    assert result["verdict"] == "pass"
    return str(folder / "exported.onnx")


OURS = {
    "ffn": ((2, 16, 64), {"Gemm": 2, "Gelu": 1, "Reshape": 2}, 2 * 16 * 64 * 256),
    "geglu": ((2, 16, 64), {"Gemm": 2, "Gelu": 1}, 16 * 64 * 256 + 16 * 64 * 128),
    "digits_vit": ((2, 1, 8, 8), {"Gemm": 18, "Gelu": 4, "MatMul": 8}, 0),
    "convnext": ((2, 32, 14, 14), {"Conv": 2, "Gemm": 4, "Gelu": 2, "Reshape": 4}, 0),
}


@pytest.mark.parametrize("name", OURS)
def test_networks_of_ours(name: str, tmp_path: Path) -> None:
    shape, wanted, macs = OURS[name]
    path = exported(f"{MODELS / name}.py:{name}", tmp_path)
    feeds = {"x": RANDOM.standard_normal(shape).astype(np.float32)}
    network = ready(path, feeds)
    assert wanted.items() <= ops(network).items()
    assert len(network.layers) == wanted["Gemm"] + wanted.get("Conv", 0)
    assert all(layer.module and layer.bias for layer in network.layers)
    assert sum(layer.after_gelu for layer in network.layers) == (0 if name == "geglu" else wanted["Gelu"])
    assert measured(network, feeds) == network.layers
    assert not macs or sum(layer.macs for layer in network.layers) == macs
    again(network, tmp_path)


def test_the_layers_of_a_vit_are_named_and_counted(tmp_path: Path) -> None:
    network = ready(exported(f"{MODELS / 'digits_vit'}.py:digits_vit", tmp_path), {"x": np.zeros((2, 1, 8, 8), "f")})
    first, qkv, out, up, down = network.layers[:5]
    assert [layer.name for layer in (first, qkv, up)] == ["patches", "blocks.0.attention.qkv", "blocks.0.mlp.up"]
    assert (first.op, first.axis, first.macs) == ("Gemm", 1, 16 * 48 * 4)
    assert [layer.macs for layer in (qkv, out, up, down)] == [16 * 48 * n for n in (144, 48, 192, 192)]
    assert [layer.after_gelu for layer in (qkv, out, up, down)] == [False, False, False, True]
    assert network.layers[-1].macs == 16 * 48 * 10


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT whose biases are not the zeros that it starts with."""
    import torch
    from transformers import AutoModel

    folder = real_models.transformers_folder("bert", tmp_path_factory.mktemp("bert"))
    network = AutoModel.from_pretrained(folder)
    for parameter in network.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, 0.5, 0.1, generator=torch.Generator().manual_seed(0))
    network.save_pretrained(folder)
    return folder


def tokens(*, masked: bool = True) -> dict[str, Any]:
    mask = np.ones((2, 16), np.int64)
    mask[1, 7:] = 0 if masked else 1
    ids = RANDOM.integers(0, 100, (2, 16))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


FREE = tuple(f"{name}:{axis}" for name in tokens() for axis in ("0=batch", "1=seq"))


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, {"Softmax": 2, "IsNaN": 0}),
        ({"dynamic": FREE}, {"Softmax": 2, "IsNaN": 0, "Concat": 11}),
        ({"opset": 23}, {"Attention": 2, "IsNaN": 0}),
        ({"opset": 17, "exporter": "torchscript"}, {"Softmax": 2, "IsNaN": 2}),
    ],
    ids=["dynamo", "free axes", "one Attention", "torchscript"],
)
def test_bert_with_a_padding_mask(bert: Path, options: dict[str, Any], kept: dict[str, int], tmp_path: Path) -> None:
    options = {"exporter": "dynamo", **options}
    network = ready(exported(bert, tmp_path, **options), tokens())
    made = ops(network)
    assert {name: made[name] for name in kept} == kept
    assert made["Gemm"] == len(network.layers) == 13
    assert [layer.name for layer in network.layers if layer.after_gelu] == [
        f"encoder.layer.{n}.output.dense" for n in (0, 1)
    ]
    assert all(layer.module for layer in network.layers)
    again(network, tmp_path)


def test_guards_go_when_it_is_said_and_no_row_is_masked_everywhere(bert: Path, tmp_path: Path) -> None:
    path = exported(bert, tmp_path, opset=17, exporter="torchscript")
    network = ready(path, tokens(), guarded=True)
    assert not ops(network)["IsNaN"]
    tensors = [tensor for value in inner(network) if (tensor := tensor_of(value)) is not None]
    assert all(np.isfinite(tensor.numpy()).all() for tensor in tensors)


def test_magika(tmp_path: Path) -> None:
    feeds = {"bytes": RANDOM.integers(0, 257, (3, 2048)).astype(np.int32)}
    network = ready(str(real_models.magika()), feeds)
    made = ops(network)
    assert made["Gelu"] == 2
    assert made["Sqrt"] == 2, "the decomposed LayerNorm stays as it is"
    assert [layer.op for layer in network.layers] == ["Gemm", "Conv", "Gemm"]
    assert all(layer.macs for layer in network.layers)
    again(network, tmp_path)


@pytest.mark.parametrize(("name", "layers", "size"), [("rec", 66, (2, 3, 48, 160)), ("det", 83, (1, 3, 64, 96))])
def test_ppocr(name: Any, layers: int, size: tuple[int, ...], tmp_path: Path) -> None:
    network = ready(str(real_models.ppocr(name)), {"x": RANDOM.uniform(-1, 1, size).astype(np.float32)})
    assert ops(network)["Gelu"] == 13
    assert not ops(network)["Identity"]
    assert not ops(network)["BatchNormalization"]
    assert len(network.layers) == layers
    assert "opset 11 -> 20 by the version converter" in network.notes
    assert not network.layers[0].macs, "the size of an image is free"
    counted = measured(network, {"x": np.zeros(size, np.float32)})
    assert all(layer.macs for layer in counted)
    assert counted == measured(network, {"x": np.zeros((size[0] * 2, *size[1:]), np.float32)})
    again(network, tmp_path)


@pytest.mark.parametrize("opset", [11, 13, 17, 20, 21])
def test_every_opset_reaches_twenty(opset: int, tmp_path: Path) -> None:
    network = ready(saved(model(block, shape=("n", 5, 8), opset=opset), tmp_path))
    assert network.model.opset_imports[""] == max(opset, 20)
    assert list(ops(network).elements()) == ["Reshape", "Reshape", "Gemm", "Gemm", "Gelu"]
    assert [layer.after_gelu for layer in network.layers] == [False, True]
    again(network, tmp_path)


def test_a_sigmoid_gelu_stays_three_operators(tmp_path: Path) -> None:
    gated = lambda x: linear(x * sigmoid(x * 1.702), W, B)  # noqa: E731
    network = ready(saved(model(gated, shape=("n", 5, 8)), tmp_path))
    assert ops(network) == Counter(Mul=2, Sigmoid=1, Reshape=2, Gemm=1)
    assert network.layers[0].after_gelu


def test_names_are_given_where_a_file_has_none(tmp_path: Path) -> None:
    graph = model(lambda x: op("MatMul", op("Gelu", op("MatMul", x, W)), V), shape=("n", 5, 8))
    for node in graph.graph:
        node.name = ""
    network = ready(saved(graph, tmp_path))
    assert len({layer.node for layer in network.layers}) == 2

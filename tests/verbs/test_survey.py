"""``survey``: from a file, a PyTorch network, or one in memory, and whatever data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, model, op

import gelu_deploy
from gelu_deploy.errors import ModelError, UsageError

MODELS = Path(__file__).resolve().parents[2] / "models"
DIGITS = MODELS / "digits_test.npz"
WEIGHT = np.eye(8, dtype=np.float32)


def block(x: Expression) -> Expression:
    return op("Relu", op("Gelu", op("MatMul", x, WEIGHT)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    ir.save(model(block, shape=("n", 8)), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_an_onnx_file(file: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(70, 8)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, labels=np.zeros(70))
    result = gelu_deploy.survey(file, data=tmp_path / "d.npz")
    assert (result["schema"], result["data"], result["rows"]) == ("gelu-deploy/survey/1", "d.npz", 70)
    first, second = result["sites"]
    assert (first["activation"], second["activation"]) == ("erf", "relu")
    assert (first["values"], first["minimum"], first["maximum"]) == (560, x.min(), x.max())
    assert json.loads(json.dumps(result)) == result
    assert gelu_deploy.survey(file, data=tmp_path / "d.npz", batch=7)["sites"][0]["quantiles"] == first["quantiles"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.npz", "m.onnx"]


def test_a_pytorch_network_says_the_same_as_its_export(tmp_path: Path) -> None:
    source = {"arch": f"{MODELS / 'digits_vit.py'}:digits_vit"}
    gelu_deploy.export(MODELS / "digits_vit.pt", output=tmp_path / "m.onnx", data=DIGITS, **source)
    exported = gelu_deploy.survey(tmp_path / "m.onnx", data=DIGITS)
    original = gelu_deploy.survey(MODELS / "digits_vit.pt", data=DIGITS, **source)
    assert original["rows"] == exported["rows"] == 450
    names = [f"blocks.{depth}.mlp.act" for depth in range(4)]
    assert [one["module"] for one in original["sites"]] == [one["module"] for one in exported["sites"]] == names
    for mine, theirs in zip(original["sites"], exported["sites"], strict=True):
        assert mine["effective"] == pytest.approx(theirs["effective"], abs=1e-5)
        assert mine["maximum"] == pytest.approx(theirs["maximum"], rel=1e-4)
    assert not any(one["dead"] for one in original["sites"])


def test_a_network_in_memory_with_a_channel_that_is_dead(tmp_path: Path) -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    with torch.no_grad():
        network[0].bias[:] = torch.tensor([-100.0, 0.0, 100.0])  # type: ignore[operator]
    np.savez(tmp_path / "d.npz", input=np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32))
    (site,) = gelu_deploy.survey(network, data=tmp_path / "d.npz")["sites"]
    assert (site["activation"], site["channels"], site["dead"], site["saturated"]) == ("relu", 3, 1, 1)


def test_a_model_without_either_has_no_sites(tmp_path: Path) -> None:
    ir.save(model(lambda x: op("Abs", x), shape=("n", 8)), tmp_path / "m.onnx")
    np.save(tmp_path / "d.npy", np.zeros((3, 8), np.float32))
    result = gelu_deploy.survey(tmp_path / "m.onnx", data=tmp_path / "d.npy")
    assert (result["sites"], result["rows"]) == ([], 3)


def test_a_gelu_in_a_body_is_told(tmp_path: Path) -> None:
    ir.save(model(lambda x: op("Gelu", x), shape=("n", 8), place="if"), tmp_path / "m.onnx")
    np.save(tmp_path / "d.npy", np.zeros((3, 8), np.float32))
    result = gelu_deploy.survey(tmp_path / "m.onnx", data=tmp_path / "d.npy")
    assert result["notes"] == ["GELUs in functions or bodies cannot be looked at: 1 of them"]


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("y", np.zeros((2, 8), np.float32), "x"),
        ("x", np.zeros((2, 9), np.float32), "8"),
        ("x", np.zeros((2, 8)), "float"),
    ],
)
def test_data_that_do_not_fit(file: Path, tmp_path: Path, name: str, array: np.ndarray, said: str) -> None:
    np.savez(tmp_path / "d.npz", **{name: array})  # type: ignore[arg-type]  # its own keywords are bools
    with pytest.raises(UsageError, match=said):
        gelu_deploy.survey(file, data=tmp_path / "d.npz")


def test_mistakes(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="missing: data"):
        gelu_deploy.survey(file)
    with pytest.raises(UsageError, match=r"none\.npz"):
        gelu_deploy.survey(file, data=tmp_path / "none.npz")
    with pytest.raises(ModelError, match=r"none\.onnx"):
        gelu_deploy.survey(tmp_path / "none.onnx", data="d.npz")
    with pytest.raises(UsageError, match="no example inputs"):
        gelu_deploy.survey(f"{MODELS / 'activations.py'}:QuickGELU", data=tmp_path)

"""``inspect``: the GELUs of any file, ours or not, without running it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, erf, model, op, sigmoid

from gelu_deploy.errors import ModelError
from gelu_deploy.options import InspectOptions
from gelu_deploy.runtime import Session
from gelu_deploy.verbs.inspect import inspect

WEIGHT = np.eye(8, dtype=np.float32)


def block(x: Expression) -> Expression:
    hidden = op("MatMul", x, WEIGHT)
    first = op("MatMul", 0.5 * hidden * (1 + erf(hidden / 1.41421356)), WEIGHT)
    return op("MatMul", first * sigmoid(first), WEIGHT)


def saved(path: Path, made: ir.Model) -> str:
    ir.save(made, path)
    return str(path)


def test_sites_near_misses_and_kernels(tmp_path: Path) -> None:
    file = saved(tmp_path / "m.onnx", model(block, shape=("n", 8), opset=17))
    before = (tmp_path / "m.onnx").read_bytes()
    result = inspect(file, InspectOptions())
    assert {key: result[key] for key in ("schema", "model", "opset", "provider", "notes")} == {
        "schema": "gelu-deploy/inspect/1",
        "model": file,
        "opset": 17,
        "provider": "cpu",
        "notes": [],
    }
    (site,) = result["sites"]
    assert (site["form"], site["spelling"], site["kernels"], site["module"]) == ("erf", "ops", ["Gelu"], "")
    (miss,) = result["near_misses"]
    assert miss["reason"].startswith("x·σ(1·x)")
    assert json.loads(json.dumps(result)) == result
    assert (tmp_path / "m.onnx").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_model_without_gelu_has_no_sites(tmp_path: Path) -> None:
    result = inspect(saved(tmp_path / "m.onnx", model(lambda x: op("Relu", x))), InspectOptions())
    assert (result["sites"], result["near_misses"]) == ([], [])


def test_of_types_that_no_kernel_here_can_compute_the_runtimes_reason_is_told(tmp_path: Path) -> None:
    file = saved(tmp_path / "m.onnx", model(block, shape=("n", 8), dtype=ir.DataType.DOUBLE, opset=17))
    with pytest.raises(ModelError, match="The runtime refuses the model"):
        inspect(file, InspectOptions())


@pytest.mark.parametrize("content", [b"", b"hello", b"\x08\x0a\x12\x03abc"])
def test_what_is_no_onnx_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(ModelError):
        inspect(str(tmp_path / "m.onnx"), InspectOptions())
    with pytest.raises(ModelError, match="none"):
        inspect(str(tmp_path / "none.onnx"), InspectOptions())


def test_large_weights_need_not_be_there(tmp_path: Path) -> None:
    wide = np.ones((8, 600), np.float32)
    made = model(lambda x: op("MatMul", op("Gelu", op("MatMul", x, wide)), wide.T.copy()), shape=("n", 8))
    ir.save(made, tmp_path / "m.onnx", external_data="m.data", size_threshold_bytes=0)
    assert len(inspect(str(tmp_path / "m.onnx"), InspectOptions())["sites"]) == 1
    (tmp_path / "m.data").unlink()
    assert len(inspect(str(tmp_path / "m.onnx"), InspectOptions())["sites"]) == 1
    with pytest.raises(ModelError, match=r"m\.data"):
        Session(tmp_path / "m.onnx")

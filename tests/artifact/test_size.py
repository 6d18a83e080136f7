"""How large a model is: with its weights beside it, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from gelu_deploy import artifact
from gelu_deploy.artifact import Case, stage
from gelu_deploy.errors import ModelError

WEIGHT = np.ones((64, 64), np.float32)


def model() -> ir.Model:
    x, w = ir.val("x", ir.DataType.FLOAT, ("n", 64)), ir.val("w", const_value=ir.tensor(WEIGHT, name="w"))
    node = ir.node("MatMul", [x, w])
    node.outputs[0].type = x.type
    graph = ir.Graph([x], node.outputs, nodes=[node], initializers=[w], opset_imports={"": 20}, name="g")
    return ir.Model(graph, ir_version=10)


@pytest.mark.parametrize("threshold", [0, 1e9])
def test_one_of_ours_counts_with_its_weights_and_without_golden_data(tmp_path: Path, threshold: float) -> None:
    with stage(tmp_path / "m.onnx") as staged:
        staged.write(model(), {}, cases=[Case({"x": WEIGHT}, {"y": WEIGHT})], threshold=threshold)
        staged.publish({})
    files = {file.suffix: file.stat().st_size for file in tmp_path.iterdir()}
    assert (".data" in files) == (threshold == 0)
    assert artifact.size(tmp_path / "m.onnx") == files[".onnx"] + files.get(".data", 0)


def test_one_of_someone_else_counts_with_its_weights_too(tmp_path: Path) -> None:
    ir.save(model(), tmp_path / "m.onnx", external_data="weights.bin")
    assert (tmp_path / "weights.bin").stat().st_size == WEIGHT.nbytes
    assert artifact.size(tmp_path / "m.onnx") == (tmp_path / "m.onnx").stat().st_size + WEIGHT.nbytes
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        artifact.size(tmp_path / "m.onnx")

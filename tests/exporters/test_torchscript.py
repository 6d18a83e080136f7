"""torch's older exporter, for what the other one cannot trace and for old operator sets."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

from gelu_deploy import runtime
from gelu_deploy.errors import ModelError
from gelu_deploy.originals.original import Exporter, ExportRequest
from gelu_deploy.target import load

export: Exporter = load("gelu_deploy.exporters.torchscript:export")


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).eval()


def exported(opset: int, module: Any, **dynamic: dict[int, str]) -> ir.Model:
    return export(module, (torch.zeros(2, 4),), ExportRequest(opset, ("x",), ("y",), dynamic))


@pytest.mark.parametrize(("asked", "made"), [(7, 9), (11, 11), (17, 17), (20, 20), (23, 20)])
def test_the_operator_set_that_was_asked_for_within_what_it_writes(
    asked: int, made: int, capfd: pytest.CaptureFixture[str]
) -> None:
    model = exported(asked, net(), x={0: "batch"})
    assert model.opset_imports[""] == made
    assert ("Gelu" in {node.op_type for node in model.graph}) == (made == 20)
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == ["x", "y"]
    shape = model.graph.inputs[0].shape
    assert shape is not None
    assert [str(size) for size in shape] == ["batch", "4"]
    assert capfd.readouterr() == ("", "")


def test_it_computes_what_the_module_does_at_another_batch() -> None:
    module = net()
    model = exported(20, module, x={0: "batch"})
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    with torch.no_grad():
        wanted = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(runtime.evaluate(model, {"x": x}, optimise=False)["y"], wanted, atol=1e-6)


def test_nothing_of_it_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = exported(20, nn.Linear(4, 100_000))
    assert list(tmp_path.iterdir()) == []
    weights = [value.const_value for value in model.graph.initializers.values()]
    assert not any(isinstance(tensor, ir.ExternalTensor) for tensor in weights)
    assert sum(tensor.nbytes for tensor in weights if tensor is not None) == 5 * 100_000 * 4


def test_a_script_keeps_its_branches() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                return nn.functional.gelu(x)
            return -x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(Branch().eval())
    model = exported(17, scripted)
    for x in (np.full((2, 4), 1, np.float32), np.full((2, 4), -1, np.float32)):
        got = runtime.evaluate(model, {"x": x}, optimise=False)["y"]
        np.testing.assert_allclose(got, [[0.8413447] * 4] * 2 if x[0, 0] > 0 else -x, atol=1e-6)


def test_what_it_cannot_write_is_told_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    class Unknown(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = torch.special.bessel_j0(x)
            return answer

    with pytest.raises(ModelError, match=r"^torch\.onnx \(torchscript\) could not export it: .*bessel_j0") as caught:
        exported(17, Unknown())
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().out == "", "stdout is for results"

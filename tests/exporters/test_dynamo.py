"""torch's newer exporter, as it is asked and as it answers."""

from __future__ import annotations

import logging
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import nn

from gelu_deploy.errors import ModelError
from gelu_deploy.originals.original import Exporter, ExportRequest
from gelu_deploy.target import load

export: Exporter = load("gelu_deploy.exporters.dynamo:export")


class Net(nn.Module):
    """A GELU of either form, and a GEGLU's uneven split."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 7)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = self.up(x).chunk(2, dim=-1)
        return nn.functional.gelu(left), nn.functional.gelu(right, approximate="tanh")


def exported(opset: int, module: Any = None, **dynamic: dict[int, str]) -> ir.Model:
    flat = load("gelu_deploy.exporters.original:Flat")(module or Net().eval(), ("x",), 1)
    return export(flat, (torch.zeros(2, 4),), ExportRequest(opset, ("x",), ("left", "right"), dynamic))


@pytest.mark.parametrize(("asked", "made"), [(17, 20), (24, 23)])
def test_the_nearest_operator_set_that_it_writes_well(asked: int, made: int, capfd: pytest.CaptureFixture[str]) -> None:
    level = logging.getLogger("torch").level
    model = exported(asked, x={0: "batch"})
    assert model.opset_imports[""] == made
    gelus = [node for node in model.graph if node.op_type == "Gelu"]
    assert [node.attributes.get_string("approximate", "none") for node in gelus] == ["none", "tanh"]
    assert [value.name for value in model.graph.outputs] == ["left", "right"]
    (x,) = model.graph.inputs
    assert x.name == "x"
    assert x.shape is not None
    assert [str(size) for size in x.shape] == ["batch", "4"]
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("torch").level == level


def test_a_program_keeps_its_own_axes_and_takes_the_names() -> None:
    batch = torch.export.Dim("rows")
    program = torch.export.export(Net().eval(), (torch.zeros(2, 4),), dynamic_shapes={"x": {0: batch}})
    model = export(program, (torch.zeros(2, 4),), ExportRequest(20, ("x",), ("left", "right")))
    assert [value.name for value in model.graph.outputs] == ["left", "right"]
    shape = model.graph.inputs[0].shape
    assert shape is not None
    assert not isinstance(shape[0], int)


class Data(nn.Module):
    """Its path depends on the values that come in."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum().item() > 0 else x - 1


def test_what_it_cannot_trace_is_told_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match=r"^torch\.onnx \(dynamo\) could not export it: \w+: .+$") as caught:
        exported(20, Data())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert capfd.readouterr() == ("", "")


def test_the_reason_is_the_innermost_cause() -> None:
    reason = load("gelu_deploy.exporters.dynamo:reason")
    inner, outer = ValueError("\n  the cause \n more"), RuntimeError("wrapped")
    outer.__cause__ = inner
    assert reason(outer) == "ValueError: the cause"
    assert reason(KeyError()) == "KeyError: no message"
    assert len(reason(ValueError("x" * 1000))) == 300

"""Which exporter makes the graph, and what is said when one does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gelu_deploy
from gelu_deploy.errors import ModelError, TargetError, UsageError
from gelu_deploy.originals import exporting
from gelu_deploy.originals.exporting import exported
from gelu_deploy.originals.original import ExportRequest

REQUEST = ExportRequest(20, ("x",), ("y",), {"x": {0: "batch"}})
OWN = """
import onnx_ir as ir
from onnx import parser
from gelu_deploy.errors import ModelError
TEXT = '<ir_version: 10, opset_import: ["": 20]> g (float[{}, 8] x) => (float[N, 8] y) {{ y = Erf(x) }}'

def good(module, inputs, request):
    return ir.from_proto(parser.parse_model(TEXT.format("batch")))

def fixed(module, inputs, request):
    return ir.from_proto(parser.parse_model(TEXT.format(2)))

def refuses(module, inputs, request):
    raise ModelError("I cannot do this one")

def breaks(module, inputs, request):
    raise KeyError("w")

def proto(module, inputs, request):
    return parser.parse_model(TEXT.format("batch"))
"""


class Original:
    """What the loaders return, as far as exporters see it."""

    def __init__(self, *exporters: str) -> None:
        self.exporters = exporters
        self.asked = list[str]()

    def traceable(self, exporter: str, output_names: tuple[str, ...]) -> str:
        assert output_names == ("y",)
        self.asked.append(exporter)
        return f"module for {exporter}"

    def tensors(self) -> tuple[Any, ...]:
        return ("tensor",)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``own(dynamo="breaks")`` puts functions of a file in the place of the built-in exporters; returns the file."""
    (tmp_path / "own.py").write_text(OWN)

    def place(**built_in: str) -> str:
        table = {name: f"{tmp_path}/own.py:{function}" for name, function in built_in.items()}
        monkeypatch.setattr(exporting, "BUILT_IN", table)
        return f"{tmp_path}/own.py"

    return place


def test_the_one_that_was_asked_for_is_used(own: Any) -> None:
    own(dynamo="good", torchscript="refuses")
    original = Original("dynamo", "torchscript")
    made = exported(original, REQUEST, "dynamo")
    assert (made.exporter, made.notes, original.asked) == ("dynamo", (), ["dynamo"])
    assert [node.op_type for node in made.model.graph] == ["Erf"]


def test_when_it_fails_the_other_is_tried_and_the_note_says_why(own: Any) -> None:
    own(dynamo="refuses", torchscript="good")
    for wanted, used in (("dynamo", "torchscript"), ("torchscript", "torchscript")):
        made = exported(Original("dynamo", "torchscript"), REQUEST, wanted)
        assert made.exporter == used
        assert made.notes == (("I cannot do this one; exported with torchscript instead",) if wanted != used else ())


def test_when_both_fail_both_reasons_are_in_one_error(own: Any) -> None:
    own(dynamo="refuses", torchscript="fixed")
    with pytest.raises(ModelError, match=r"I cannot do this one; axis 0 of x \(batch\) came out fixed at 2"):
        exported(Original("dynamo", "torchscript"), REQUEST, "dynamo")


def test_an_axis_that_came_out_fixed_is_a_reason_to_try_the_other(own: Any) -> None:
    own(dynamo="fixed", torchscript="good")
    made = exported(Original("dynamo", "torchscript"), REQUEST, "dynamo")
    assert made.notes == ("axis 0 of x (batch) came out fixed at 2; exported with torchscript instead",)
    free = ExportRequest(20, ("x",), ("y",))
    assert exported(Original("dynamo"), free, "dynamo").exporter == "dynamo"


def test_the_default_gives_way_to_the_only_one_that_applies(own: Any) -> None:
    own(dynamo="refuses", torchscript="good")
    made = exported(Original("torchscript"), REQUEST, "dynamo")
    assert made.exporter == "torchscript"
    assert made.notes == ("dynamo cannot take this kind of file; exported with torchscript instead",)


def test_a_wish_that_does_not_apply_is_told(own: Any) -> None:
    own(dynamo="good", torchscript="good")
    with pytest.raises(UsageError, match="--exporter torchscript cannot take this kind of file; --exporter dynamo can"):
        exported(Original("dynamo"), REQUEST, "torchscript")


def test_an_exporter_of_ones_own_is_used_alone(own: Any) -> None:
    file = own(dynamo="good", torchscript="good")
    original = Original("dynamo", "torchscript")
    assert exported(original, REQUEST, f"{file}:good").exporter == f"{file}:good"
    assert original.asked == [f"{file}:good"]
    with pytest.raises(ModelError, match=r"^I cannot do this one$"):
        exported(original, REQUEST, f"{file}:refuses")


def test_what_an_exporter_of_ones_own_does_wrong_names_it(own: Any) -> None:
    file = own()
    with pytest.raises(ModelError, match=r"--exporter .*own\.py:breaks failed: KeyError: 'w'"):
        exported(Original("dynamo"), REQUEST, f"{file}:breaks")
    with pytest.raises(ModelError, match=r"own\.py:proto returned a ModelProto; expected an onnx_ir\.Model"):
        exported(Original("dynamo"), REQUEST, f"{file}:proto")
    with pytest.raises(TargetError):
        exported(Original("dynamo"), REQUEST, f"{file}:missing")


NETWORK = """
import torch

class Loop(torch.nn.Module):
    def forward(self, x):
        total = torch.nn.functional.gelu(x)
        if x.sum().item() > 1e9:  # the dynamo exporter cannot follow this
            total = total + 1
        return total

class Fixed(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] != 2:
            raise ValueError("batches of two only")
        return torch.nn.functional.gelu(x.reshape(2, 8))

def example_inputs():
    return torch.linspace(-1, 1, 16).reshape(2, 8)
"""


@pytest.fixture
def network(tmp_path: Path) -> str:
    (tmp_path / "network.py").write_text(NETWORK)
    return f"{tmp_path}/network.py"


def test_a_network_that_dynamo_cannot_trace_goes_through_torchscript(network: str, tmp_path: Path) -> None:
    result = gelu_deploy.export(f"{network}:Loop", output=str(tmp_path / "m.onnx"))
    assert result["verdict"] == "pass"
    assert result["exporter"] == "torchscript"
    (note,) = [note for note in result["notes"] if "instead" in note]
    assert note.startswith("torch.onnx (dynamo) could not export it: ")
    assert note.endswith("; exported with torchscript instead")


def test_a_network_that_refuses_other_batches_keeps_its_own(network: str, tmp_path: Path) -> None:
    result = gelu_deploy.export(f"{network}:Fixed", output=str(tmp_path / "m.onnx"), exporter="torchscript")
    assert result["verdict"] == "pass"
    assert result["inputs"] == {"x": "2 x 8 float32"}
    (note,) = [note for note in result["notes"] if note.startswith("the batch stays fixed: ")]
    assert "batches of two only" in note
    fixed = gelu_deploy.export(f"{network}:Fixed", output=str(tmp_path / "n.onnx"), exporter="torchscript", batch=False)
    assert fixed["inputs"] == {"x": "2 x 8 float32"}
    assert not [note for note in fixed["notes"] if "batch" in note]
    assert [case["x"] for case in fixed["cases"]] == ["2x8:float32"]


def test_a_torchscript_file_is_exported_by_default(tmp_path: Path) -> None:
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(torch.nn.GELU(), torch.zeros(2, 8))  # type: ignore[no-untyped-call]
        torch.jit.save(scripted, tmp_path / "m.pt")
    result = gelu_deploy.export(
        str(tmp_path / "m.pt"), output=str(tmp_path / "m.onnx"), trust_code=True, input="input:2x8:float32"
    )
    assert (result["verdict"], result["exporter"]) == ("pass", "torchscript")

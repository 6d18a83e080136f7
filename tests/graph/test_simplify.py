"""The guard around onnxsim: whatever it does, the model that goes on has the same signature, GELUs and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphs import Expression, model, op

from gelu_deploy import runtime
from gelu_deploy.artifact.golden import Case
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.scopes import MODULE, module_of
from gelu_deploy.graph.simplify import Simplify
from gelu_deploy.options import ExportOptions
from gelu_deploy.parity import Limits
from gelu_deploy.pipeline import Pipeline

Tool = Callable[..., tuple[onnx.ModelProto, bool]]
X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)


def block(x: Expression) -> Expression:
    """A GELU between two products, with something for a simplifier to remove."""
    hidden = op("Identity", op("MatMul", x, WEIGHT))
    return op("MatMul", op("Gelu", hidden), WEIGHT)


def graph() -> ir.Model:
    made = model(block, shape=("n", 8))
    for node in made.graph:
        node.metadata_props[MODULE] = f"of.{node.op_type}"
    return made


def renamed_input(proto: onnx.ModelProto) -> None:
    for node in proto.graph.node:
        node.input[:] = ["other" if name == "x" else name for name in node.input]
    proto.graph.input[0].name = "other"


def dropped_output(proto: onnx.ModelProto) -> None:
    proto.graph.output.pop()


def lost_gelu(proto: onnx.ModelProto) -> None:
    next(node for node in proto.graph.node if node.op_type == "Gelu").op_type = "Relu"


def other_form(proto: onnx.ModelProto) -> None:
    gelu = next(node for node in proto.graph.node if node.op_type == "Gelu")
    gelu.attribute.append(onnx.helper.make_attribute("approximate", "tanh"))


def other_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version = 21


def other_type(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


def other_answers(proto: onnx.ModelProto) -> None:
    weight = proto.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.001, weight.name))


def pretend(monkeypatch: pytest.MonkeyPatch, change: Callable[[onnx.ModelProto], None]) -> None:
    """An onnxsim that does this and nothing else."""

    def simplify(proto: onnx.ModelProto, **_: Any) -> tuple[onnx.ModelProto, bool]:
        changed = onnx.ModelProto.FromString(proto.SerializeToString())
        change(changed)
        return changed, True

    monkeypatch.setattr("onnxsim.simplify", simplify)


def piped() -> Pipeline:
    """The same graph through the whole pipeline."""
    wanted = runtime.evaluate(graph(), {"x": X}, optimise=False)
    pipeline = Pipeline.start(graph(), [Case({"x": X}, wanted)], Limits(), measured=True)
    pipeline.run(ExportOptions(), 20)
    return pipeline


REFUSED = [
    (dropped_output, "not simplified: onnxsim changed the outputs"),
    (renamed_input, "not simplified: onnxsim changed the inputs"),
    (other_type, "not simplified: onnxsim changed the outputs"),
    (other_opset, "not simplified: onnxsim changed the opset"),
    (lost_gelu, "not simplified: onnxsim changed the GELUs: 1 before, 0 after"),
    (other_form, "not simplified: onnxsim changed the GELUs: 1 before, 1 after or in another form"),
]


@pytest.mark.parametrize(("change", "note"), REFUSED, ids=[change.__name__ for change, _ in REFUSED])
def test_what_it_must_not_change_is_refused(monkeypatch: pytest.MonkeyPatch, change: Any, note: str) -> None:
    pretend(monkeypatch, change)
    made = graph()
    result = Simplify().apply(made)
    assert result.model is made
    assert not result.modified
    assert result.notes[0].startswith(note)
    pipeline = piped()
    assert all(stage["passed"] for stage in pipeline.stages)
    assert any(text.startswith(note) for text in pipeline.notes)
    assert [site.form for site in find(pipeline.model).sites] == ["erf"]


def test_a_simplifier_that_raises_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: onnx.ModelProto) -> None:
        raise RuntimeError("no such luck\nat 0x1234")

    pretend(monkeypatch, fail)
    pipeline = piped()
    assert pipeline.notes == ["not simplified: onnxsim: RuntimeError: no such luck"]
    assert all(stage["passed"] for stage in pipeline.stages)


def test_changed_answers_are_seen_and_the_model_before_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, other_answers)
    pipeline = piped()
    assert [stage["name"] for stage in pipeline.stages] == ["export", "rewrite"]
    assert pipeline.notes[-1].startswith("not simplified: onnxsim moved y by ")
    wanted = runtime.evaluate(graph(), {"x": X}, optimise=False)["y"]
    np.testing.assert_allclose(runtime.evaluate(pipeline.model, {"x": X}, optimise=False)["y"], wanted, atol=1e-6)


def test_what_it_removes_is_counted_and_modules_are_kept() -> None:
    made = graph()
    result = Simplify().apply(made)
    assert result.modified
    assert result.notes == ("onnxsim removed 1 operator",)
    assert Counter(node.op_type for node in result.model.graph) == Counter(MatMul=2, Gelu=1)
    assert find(result.model).sites[0].module == "of.Gelu"
    assert all(module_of(node) for node in result.model.graph)


@pytest.mark.parametrize("spelling", ["ops", "gelu", "contrib"])
def test_the_spelling_that_was_asked_for_stays(spelling: Any) -> None:
    wanted = runtime.evaluate(graph(), {"x": X}, optimise=False)
    pipeline = Pipeline.start(graph(), [Case({"x": X}, wanted)], Limits(), measured=True)
    found = pipeline.run(ExportOptions(spelling=spelling), 20)
    assert [site.spelling for site in found.sites] == [spelling]
    assert any(note.startswith("onnxsim removed") for note in pipeline.notes)

"""The order of the passes, what is measured after each, and what is said when one breaks the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, erf, model, op
from spellings import R2

import gelu_deploy
from gelu_deploy import runtime
from gelu_deploy.artifact.golden import Case
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.graph.passes import Result
from gelu_deploy.graph.recognize import find
from gelu_deploy.options import ExportOptions
from gelu_deploy.parity import Limits
from gelu_deploy.pipeline import Pipeline, check

WEIGHT = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32) / 8
BACK = np.random.default_rng(1).standard_normal((64, 32)).astype(np.float32) / 8
X = np.random.default_rng(2).standard_normal((3, 32)).astype(np.float32)


def block(x: Expression) -> Expression:
    hidden = op("MatMul", x, WEIGHT)
    return op("MatMul", hidden * (0.5 * (1 + erf(hidden / R2))), BACK)


def started(opset: int = 18, *, measured: bool = True, limits: Limits | None = None, wrong: float = 0.0) -> Pipeline:
    made = model(block, shape=("n", 32), opset=opset)
    answers = runtime.evaluate(made, {"x": X}, optimise=False)
    case = Case({"x": X}, {name: array + np.float32(wrong) for name, array in answers.items()})
    return Pipeline.start(made, [case], limits or Limits(), measured=measured)


def stages(pipeline: Pipeline) -> list[str]:
    return [stage["name"] for stage in pipeline.stages]


def test_it_works_on_a_hollow_graph_and_gives_back_a_whole_one() -> None:
    pipeline = started()
    assert len(pipeline.held.names) == 2
    assert {value.name for value in pipeline.model.graph.inputs} == {"x", *pipeline.held.names}
    pipeline.run(ExportOptions(), 18)
    whole = pipeline.whole()
    assert [value.name for value in whole.graph.inputs] == ["x"]
    assert (whole.producer_name, whole.producer_version) == ("gelu_deploy", None)
    check(whole, "all")
    got = runtime.evaluate(whole, {"x": X}, optimise=True)["y"]
    np.testing.assert_allclose(got, pipeline.cases[0].outputs["y"], atol=1e-5)


@pytest.mark.parametrize(
    ("own", "wanted", "order"),
    [
        (18, 18, ["export", "rewrite", "simplify"]),
        (18, 20, ["export", "opset 20", "rewrite", "simplify"]),
        (20, 17, ["export", "rewrite", "opset 17", "simplify"]),
    ],
)
def test_rewriting_comes_after_raising_and_before_lowering_and_simplifying(
    own: int, wanted: int, order: list[str]
) -> None:
    pipeline = started(own)
    found = pipeline.run(ExportOptions(), wanted)
    assert stages(pipeline) == order
    assert all(stage["passed"] for stage in pipeline.stages)
    assert [site.spelling for site in found.sites] == ["gelu" if wanted >= 20 else "ops"]
    assert pipeline.model.opset_imports[""] == wanted


def test_without_simplifying_there_is_no_such_stage() -> None:
    pipeline = started()
    pipeline.run(ExportOptions(simplify=False), 18)
    assert stages(pipeline) == ["export", "rewrite"]


def test_unmeasured_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr("gelu_deploy.proof.hollow_run", forbidden)
    pipeline = started(measured=False)
    assert pipeline.run(ExportOptions(form="tanh"), 18).sites[0].form == "tanh"
    assert pipeline.stages == []


def test_a_change_of_form_is_a_line_of_its_own_and_moves_what_is_expected() -> None:
    pipeline = started()
    pipeline.run(ExportOptions(form="sigmoid"), 18)
    assert stages(pipeline) == ["export", "form erf -> sigmoid", "simplify"]
    changed, after = pipeline.stages[1:]
    assert changed["passed"]
    assert changed["max_abs"] > 1e-3 > after["max_abs"]
    case = pipeline.cases[0]
    assert np.abs(case.form["y"] - case.outputs["y"]).max() == pytest.approx(changed["max_abs"])


def test_a_try_leaves_what_it_was_branched_from() -> None:
    pipeline = started()
    before = ir.to_proto(pipeline.model)
    (output,) = [site.output.name or "" for site in find(pipeline.model).sites]
    branch = pipeline.branched({output: ("tanh", "ops")}, measured=True)
    assert branch.run(ExportOptions(), 20).sites[0].form == "tanh"
    assert [stage["name"] for stage in branch.stages] == ["opset 20", "form erf -> tanh", "simplify"]
    assert ir.to_proto(pipeline.model) == before
    assert (stages(pipeline), pipeline.plans, pipeline.cases[0].form) == (["export"], [], {})
    assert runtime.evaluate(branch.whole(), {"x": X}, optimise=True)["y"].shape == X.shape
    assert pipeline.run(ExportOptions(), 18).sites[0].form == "erf"
    got = runtime.evaluate(pipeline.whole(), {"x": X}, optimise=True)["y"]
    np.testing.assert_allclose(got, pipeline.cases[0].outputs["y"], atol=1e-5)


def test_a_factor_that_a_try_folds_into_weights_is_in_its_own_only() -> None:
    made = model(lambda x: op("MatMul", x * (1 + erf(x / R2)), WEIGHT), shape=("n", 32), opset=18)
    x = X.copy()
    case = Case({"x": x}, runtime.evaluate(made, {"x": x}, optimise=False))
    pipeline = Pipeline.start(made, [case], Limits(), measured=True)
    (held,) = pipeline.weights.values()
    branch = pipeline.branched({}, measured=True)
    branch.run(ExportOptions(), 18)
    assert all(stage["passed"] for stage in branch.stages)
    np.testing.assert_array_equal(next(iter(branch.weights.values())), 2 * held)
    np.testing.assert_array_equal(next(iter(pipeline.weights.values())), held)


def test_a_wrong_export_fails_at_its_own_stage_already() -> None:
    pipeline = started(wrong=0.01)
    assert [stage["passed"] for stage in pipeline.stages] == [False]
    assert pipeline.stages[0]["max_abs"] == pytest.approx(0.01, rel=0.01)
    assert started(wrong=0.01, limits=Limits({"": 0.1})).stages[0]["passed"]


@dataclass(frozen=True)
class Breaks:
    """A pass that leaves a node reading a value that no one makes."""

    def apply(self, broken: ir.Model) -> Result:
        broken.graph[0].replace_input_with(0, ir.val("nobody", ir.DataType.FLOAT, [3, 32]))
        return Result(broken, modified=True, notes=("did it",))


def test_a_pass_that_leaves_an_invalid_model_is_named() -> None:
    pipeline = started()
    with pytest.raises(ModelError, match=r"after breaking it the ONNX checker refuses the model: .*nobody"):
        pipeline.apply(Breaks(), "breaking it")
    assert pipeline.notes == ["did it"]


def test_a_gelu_that_is_lost_on_the_way_is_a_bug_of_ours() -> None:
    pipeline = started()
    pipeline.rewrite(ExportOptions(), 18)
    next(node for node in pipeline.model.graph if node.op_type == "Erf").op_type = "Tanh"
    with pytest.raises(AssertionError, match="1 GELUs were written and 0 are found again"):
        pipeline.survivors()


def test_a_spelling_that_the_opset_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="needs opset 20"):
        started().run(ExportOptions(spelling="gelu"), 18)


def test_excluded_and_near_misses_are_left_and_reported() -> None:
    made = model(lambda x: x * op("Sigmoid", x), shape=("n", 8))
    x = X[:, :8].copy()
    case = Case({"x": x}, runtime.evaluate(made, {"x": x}, optimise=False))
    found = Pipeline.start(made, [case], Limits(), measured=True).run(ExportOptions(), 20)
    assert found.sites == ()
    assert [miss.reason[:7] for miss in found.misses] == ["x·σ(1·x"]


@pytest.mark.parametrize("form", ["keep", "tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE])
def test_slopes_and_constants_of_other_types_are_found_again(dtype: ir.DataType, form: Any) -> None:
    made = model(lambda x: op("Gelu", x), shape=("n", 8), dtype=dtype)
    pipeline = Pipeline.start(made, [], Limits(), measured=False)
    (site,) = pipeline.run(ExportOptions(form=form, spelling="ops"), 20).sites
    assert site.form == ("erf" if form == "keep" else form)
    assert find(pipeline.model).misses == ()


HERE = Path(__file__).parent
MODELS = HERE.parent / "models"


def exported(name: str, output: Path, exporter: str = "dynamo", **options: Any) -> Any:
    cached = f"{HERE / 'cached.py'}:{exporter}"
    return gelu_deploy.export(f"{MODELS / name}.py:{name}", output=str(output), exporter=cached, **options)


@pytest.mark.parametrize(
    ("form", "opset", "exporter"),
    [("keep", 17, "dynamo"), ("keep", 20, "torchscript"), ("sigmoid", 20, "dynamo"), ("tanh", 17, "torchscript")],
)
def test_float16_passes_as_it_is(form: Any, opset: int, exporter: str, tmp_path: Path) -> None:
    result = exported("ffn", tmp_path / "m.onnx", exporter, dtype="float16", form=form, opset=opset)
    assert result["verdict"] == "pass", result["reason"]
    assert result["inputs"]["x"].endswith("float16")
    (site,) = result["sites"]
    assert site["module"] == "act"
    assert site["kernels"]
    assert len(site["kernels"]) == 1 or "float16" in site["reason"]
    assert gelu_deploy.check(tmp_path / "m.onnx")["verdict"] == "pass"


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(
    ("network", "dtype", "operator"),
    [("ffn", "bfloat16", "MatMul"), ("ffn", "float64", "Erf"), ("convnext", "bfloat16", "Conv")],
)
def test_a_type_without_a_kernel_ends_in_the_operator_and_the_way_out(
    network: str, dtype: Any, operator: str, verify: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    way_out = rf"{operator}.* computes in {dtype}, .*--dtype float32"
    with pytest.raises(ModelError, match=way_out):
        exported(network, tmp_path / "m.onnx", dtype=dtype, opset=20, verify=verify)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_an_onnx_file_of_such_a_type_is_told_without_advice_for_pytorch(tmp_path: Path) -> None:
    ir.save(model(lambda x: op("Gelu", x), shape=("n", 8), dtype=ir.DataType.DOUBLE), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="Could not find an implementation for Erf") as caught:
        gelu_deploy.export(str(tmp_path / "m.onnx"), output=str(tmp_path / "o.onnx"))
    assert "--dtype" not in str(caught.value)

"""Tests of tests: one wrong constant in one site is found, where the network's outputs alone do not see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import real_models
from graphs import Expression, Place, erf, model, op
from onnx import numpy_helper

import gelu_deploy
from gelu_deploy import artifact, proof, runtime, sites
from gelu_deploy.artifact.golden import Case
from gelu_deploy.graph import hollow
from gelu_deploy.graph.opening import open_graph
from gelu_deploy.graph.recognize import find
from gelu_deploy.parity import Limits
from gelu_deploy.results import SiteResult, Stage

HERE = Path(__file__).parent
CONVNEXT = str(HERE.parent / "models" / "convnext.py:convnext")
K, WRONG = 0.044715, 0.05


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proof")


@pytest.fixture(scope="module")
def convnext(folder: Path) -> Path:
    """The ConvNeXt blocks with tanh GELUs spelled out; LayerScale is 1e-6."""
    return exported(CONVNEXT, folder / "convnext.onnx", exporter=f"{HERE / 'cached.py'}:dynamo", form="tanh")


@pytest.fixture(scope="module")
def magika(folder: Path) -> Path:
    return exported(str(real_models.magika()), folder / "magika.onnx")


def exported(source: str, output: Path, **options: Any) -> Path:
    result = gelu_deploy.export(source, output=str(output), spelling="ops", **options)
    assert result["verdict"] == "pass"
    assert [(site["form"], site["spelling"]) for site in result["sites"]] == [("tanh", "ops")] * 2
    return output


def with_constant(file: Path, place: int = 0) -> onnx.ModelProto:
    """The model of a file with 0.05 in the place of 0.044715 in one of its sites, and in no other."""
    proto = onnx.load(file)
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    cubes = [
        (node, slot)
        for node in proto.graph.node
        for slot, name in enumerate(node.input)
        if name in held and held[name].shape == () and abs(float(held[name]) - K) < 1e-6
    ]
    assert len(cubes) == 2
    proto.graph.initializer.append(numpy_helper.from_array(np.array(WRONG, np.float32), "wrong"))
    node, slot = cubes[place]
    node.input[slot] = "wrong"
    return proto


def judged(file: Path, proto: onnx.ModelProto, rows: list[SiteResult]) -> tuple[Stage, Stage]:
    """Outputs and sites of a changed model, against the golden data and the sites of the file that it was."""
    cases = artifact.cases(file)
    run = runtime.Evaluation(proto.SerializeToString(), optimise=True)
    outputs = proof.outputs("runtime", [run(case.inputs) for case in cases], cases, Limits())
    changed = ir.from_proto(proto)
    held = hollow.hold(changed)
    return outputs, proof.site_parity(changed, hollow.arrays(held), rows, cases, "cpu")


def recorded(file: Path) -> list[SiteResult]:
    rows: list[SiteResult] = artifact.verify(file)["sites"]
    return rows


@pytest.mark.parametrize("network", ["convnext", "magika"])
def test_as_it_was_written_outputs_and_sites_agree(network: str, request: pytest.FixtureRequest) -> None:
    file: Path = request.getfixturevalue(network)
    outputs, inner = judged(file, onnx.load(file), recorded(file))
    assert outputs["passed"]
    assert inner["passed"]


@pytest.mark.parametrize(("network", "place"), [("convnext", 0), ("convnext", 1), ("magika", 1)])
def test_a_wrong_constant_in_one_site_fails_at_the_sites(
    network: str, place: int, request: pytest.FixtureRequest
) -> None:
    file: Path = request.getfixturevalue(network)
    outputs, inner = judged(file, with_constant(file, place), recorded(file))
    assert not inner["passed"]
    assert inner["ratio"] > 10
    site = recorded(file)[place]
    assert inner["worst"] == (site["module"] or site["output"])
    if network == "convnext":
        assert outputs["passed"], "LayerScale hides it: this is why sites are measured"
        assert outputs["max_abs"] < 1e-6
    assert proof.verdict([outputs, inner])[0] == "fail"


@pytest.mark.parametrize(("form", "other"), [("erf", "sigmoid"), ("sigmoid", "erf"), ("erf", "tanh"), ("tanh", "erf")])
def test_a_site_in_another_form_than_was_said_fails(form: Any, other: str, folder: Path) -> None:
    file = folder / f"{form}-{other}.onnx"
    if not file.exists():
        gelu_deploy.export(CONVNEXT, output=str(file), exporter=f"{HERE / 'cached.py'}:dynamo", form=form)
    said = recorded(file)
    for row in said:
        row["form"] = other
        row.pop("written", None)
    outputs, inner = judged(file, onnx.load(file), said)
    assert outputs["passed"]
    assert (inner["passed"], inner["max_abs"] > 1e-4) == (False, True)


def test_the_slope_of_the_sigmoid_form_is_the_one_that_was_written() -> None:
    graph = model(lambda x: op("QuickGelu", x, domain="com.microsoft", alpha=1.7), shape=("n", 8))
    (site,) = find(graph).sites
    row = sites.row(site, sites.kernels(graph, "cpu"))
    case = Case({"x": np.linspace(-6, 6, 16, dtype=np.float32).reshape(2, 8)}, {})
    row["written"] = sites.writing("sigmoid", "contrib", 1.7)
    assert proof.site_parity(graph, {}, [row], [case], "cpu")["passed"]
    row["written"] = sites.writing("sigmoid", "contrib", 1.702)
    assert not proof.site_parity(graph, {}, [row], [case], "cpu")["passed"]


def test_a_fused_bias_belongs_to_the_input_of_its_form() -> None:
    bias = np.linspace(-1, 1, 8, dtype=np.float32)
    graph = model(lambda x: op("FastGelu", x, bias, domain="com.microsoft"), shape=("n", 8))
    (site,) = find(graph).sites
    row = sites.row(site, sites.kernels(graph, "cpu"))
    case = Case({"x": np.linspace(-6, 6, 16, dtype=np.float32).reshape(2, 8)}, {})
    assert proof.site_parity(graph, {}, [row], [case], "cpu")["passed"]
    del row["bias"]
    assert not proof.site_parity(graph, {}, [row], [case], "cpu")["passed"]


def test_outputs_of_another_name_are_missing_not_forgotten() -> None:
    case = Case({}, {"y": np.ones(3, np.float32), "z": np.ones(3, np.float32)})
    stage = proof.outputs("runtime", [{"y": np.ones(3, np.float32)}], [case], Limits())
    assert (stage["passed"], stage["worst"], stage["max_abs"]) == (False, "z", np.inf)


def test_after_a_change_of_form_its_own_answers_are_expected() -> None:
    one, two = np.ones(3, np.float32), np.full(3, 2, np.float32)
    case = Case({}, {"y": one}, {"y": two})
    assert proof.outputs("runtime", [{"y": two}], [case], Limits())["passed"]
    assert not proof.outputs("runtime", [{"y": one}], [case], Limits())["passed"]


def test_the_verdict_names_the_first_stage_that_broke() -> None:
    def stage(name: str, ratio: float) -> Stage:
        return Stage(name=name, max_abs=ratio * 1e-5, max_rel=0, ratio=ratio, worst="logits", passed=ratio <= 1)

    assert proof.verdict([]) == ("pass", "")
    assert proof.verdict([stage("export", 0.5), stage("runtime", 1.0)]) == ("pass", "")
    verdict, reason = proof.verdict([stage("export", 0.5), stage("simplify", 3.0), stage("runtime", 9.0)])
    assert verdict == "fail"
    assert reason == "simplify broke parity: logits is off by 3.00e-05, 3 times what is allowed"


def test_a_hollow_run_answers_as_the_whole_model_does(convnext: Path) -> None:
    opened = open_graph(str(convnext))
    assert opened.held.names
    case = artifact.cases(convnext)[0]
    got = proof.hollow_run(opened.model, hollow.arrays(opened.held))(case.inputs)
    wanted = runtime.evaluate(convnext, case.inputs, optimise=False)
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array)


def exact(x: Expression) -> Expression:
    return 0.5 * x * (1 + erf(x / 2**0.5))


@pytest.mark.parametrize("place", ["if", "loop"])
def test_sites_that_no_tap_reaches_are_said(place: Place) -> None:
    graph = model(exact, place=place, home="constant", opset=17, shape=("n", 8))
    (site,) = find(graph).sites
    row = sites.row(site, sites.kernels(graph, "cpu"))
    (note,) = proof.unseen(graph, [row])
    assert note.startswith("GELUs in bodies are proved through the outputs alone; 1 of them")
    case = Case({"x": np.ones((2, 8), np.float32)}, {})
    assert proof.site_parity(graph, {}, [row], [case], "cpu")["worst"] == ""


@pytest.mark.parametrize("place", ["function", "nested"])
def test_a_site_in_a_function_is_measured_itself(place: Place) -> None:
    graph = model(exact, place=place, home="constant", opset=17, shape=("n", 8))
    (site,) = find(graph).sites
    row = sites.row(site, sites.kernels(graph, "cpu"))
    assert proof.unseen(graph, [row]) == []
    case = Case({"x": np.linspace(-6, 6, 16, dtype=np.float32).reshape(2, 8)}, {})
    stage = proof.site_parity(graph, {}, [row], [case], "cpu")
    assert (stage["passed"], stage["worst"]) == (True, "inner.y")
    row["form"] = "tanh"
    assert not proof.site_parity(graph, {}, [row], [case], "cpu")["passed"]


def test_a_file_with_functions_is_exported_and_checked_at_its_sites(tmp_path: Path) -> None:
    ir.save(model(exact, place="nested", home="constant", opset=17), tmp_path / "in.onnx")
    result = gelu_deploy.export(str(tmp_path / "in.onnx"), output=str(tmp_path / "out.onnx"))
    checked = gelu_deploy.check(str(tmp_path / "out.onnx"))
    for found in (result, checked):
        assert found["verdict"] == "pass"
        assert not any("bodies" in note for note in found["notes"])
        (row,) = found["sites"]
        assert (row["kernels"], row["reason"]) == (["Gelu"], "")
        (stage,) = (stage for stage in found["stages"] if stage["name"] == "sites")
        assert 0 < stage["ratio"] <= 1
    (seen,) = gelu_deploy.inspect(str(tmp_path / "in.onnx"))["sites"]
    assert (seen["kernels"], seen.get("function")) == (["Gelu"], "test::Inner")

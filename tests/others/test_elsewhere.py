"""The form of every site in another runtime: in the network where that tells, else alone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphs import Expression, Place, erf, model, op

from gelu_deploy import sites
from gelu_deploy.artifact.golden import Case
from gelu_deploy.errors import ModelError, SetupError
from gelu_deploy.graph.opening import open_graph
from gelu_deploy.graph.recognize import find
from gelu_deploy.others import RUNTIMES
from gelu_deploy.others.apart import Job, run
from gelu_deploy.others.elsewhere import Elsewhere, measure
from gelu_deploy.results import SiteResult

pytestmark = pytest.mark.skipif(find_spec("tract") is None, reason="tract is not installed")
WEIGHT = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
"""Large enough to be held out of the graph."""


def network(x: Expression) -> Expression:
    hidden = op("Add", op("MatMul", x, WEIGHT), np.linspace(-1, 1, 40, dtype=np.float32))
    return op("MatMul", op("Gelu", hidden), WEIGHT)


def measured(proto: ir.Model, folder: Path, x: np.ndarray, name: str = "tract") -> tuple[Elsewhere, list[SiteResult]]:
    onnx.save(ir.to_proto(proto), folder / "m.onnx")
    graph = open_graph(str(folder / "m.onnx"))
    rows = [sites.row(site, None) for site in find(graph.model).sites]
    return measure(name, str(folder / "m.onnx"), graph, rows, [Case({"x": x}, {})]), rows


@pytest.mark.parametrize(("reach", "how"), [(4.0, "in the network"), (1e-3, "alone")])
def test_where_the_golden_data_tell_and_where_not(reach: float, how: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).uniform(-reach, reach, (3, 40)).astype(np.float32)
    graph = model(lambda v: op("Gelu", v), shape=("n", 40)) if how == "alone" else model(network, shape=("n", 40))
    found, (row,) = measured(graph, tmp_path, x)
    assert row["computed"]["form"] == "erf"
    assert row["computed"]["how"] == how
    assert row["computed"]["error"] < 2e-6 < row["computed"]["margin"]
    assert found.forms[row["output"]].sure
    assert found.notes == []
    assert [list(answer) for answer in found.answers] == [["y"]]


@pytest.mark.parametrize("shape", [("n", 4, 8), (2, 3), (1, 32, 14, 14), ("a", "b", 3)])
def test_alone_a_site_has_its_own_shape(shape: tuple[int | str, ...], tmp_path: Path) -> None:
    x = np.zeros([size if isinstance(size, int) else 2 for size in shape], np.float32)
    _, (row,) = measured(model(lambda v: 0.5 * v * (1 + erf(v / 2**0.5)), shape=shape, rank=1), tmp_path, x)
    assert (row["computed"]["form"], row["computed"]["how"]) == ("erf", "alone")


def test_a_multiple_of_gelu_is_that_gelu(tmp_path: Path) -> None:
    x = np.linspace(-4, 4, 24, dtype=np.float32).reshape(3, 8)
    _, (row,) = measured(model(lambda v: v * (1 + erf(v / 2**0.5)), shape=("n", 8)), tmp_path, x)
    assert row["scale"] == 2
    assert (row["computed"]["form"], row["computed"]["how"]) == ("erf", "in the network")


def test_weights_in_another_file_reach_the_runtime(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((3, 40)).astype(np.float32)
    inside, _ = measured(model(network, shape=("n", 40)), tmp_path, x)
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.save(proto, tmp_path / "far.onnx", save_as_external_data=True, location="far.data", size_threshold=64)
    graph = open_graph(str(tmp_path / "far.onnx"))
    rows = [sites.row(site, None) for site in find(graph.model).sites]
    outside = measure("tract", str(tmp_path / "far.onnx"), graph, rows, [Case({"x": x}, {})])
    np.testing.assert_array_equal(outside.answers[0]["y"], inside.answers[0]["y"])
    assert rows[0]["computed"]["form"] == "erf"


@pytest.mark.skipif(find_spec("openvino") is None, reason="openvino is not installed")
@pytest.mark.parametrize("place", ["if"])
def test_a_site_in_a_body_cannot_be_shown_and_is_said_to_be(place: Place, tmp_path: Path) -> None:
    x = np.linspace(-4, 4, 24, dtype=np.float32).reshape(3, 8)
    found, (row,) = measured(model(lambda v: op("Gelu", v), shape=("n", 8), place=place), tmp_path, x, "openvino")
    assert "computed" not in row
    assert found.notes == [
        f"openvino could be shown neither in the network nor alone what it computes for: {row['output']}, …"
    ]


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_model_that_the_runtime_refuses(name: str) -> None:
    strange = model(lambda v: op("Gelu", op("Frobnicate", v, domain="test.strange")), shape=("n", 8))
    feeds = {"x": np.zeros((2, 8), np.float32)}
    try:
        (answer,) = run(name, [Job(ir.to_proto(strange).SerializeToString(), ["y"], [feeds])])
    except SetupError as error:
        pytest.skip(str(error))
    assert isinstance(answer, ModelError)
    assert str(answer).startswith(f"{name} refuses the model: ")
    assert "Frobnicate" in str(answer), "its own words say what it does not know"

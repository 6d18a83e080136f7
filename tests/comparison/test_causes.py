"""The causes of a quantized variant's error, in order, and how they are called."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import onnx_ir as ir
import pytest
from quantize_networks import feeds, ffn, ranges

from gelu_deploy import runtime
from gelu_deploy.arrays import Arrays
from gelu_deploy.comparison.candidates import Candidate, Ends, Run
from gelu_deploy.comparison.causes import waterfalls
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.network import Network, Recipe
from gelu_deploy.results import QuantizeResult, WaterfallResult

MADE: QuantizeResult = {}  # type: ignore[typeddict-item]


def static(made: Network) -> ir.Model:
    return insert.static(made, Recipe(ranges(made, list(feeds(made)))))


@pytest.fixture
def candidates(tmp_path: Path) -> dict[str, Candidate]:
    """float, float tanh (another network, so that the form shows), and what was quantized from each."""
    erf, tanh = ffn(width=32, hidden=64), ffn(width=32, hidden=64, contrib="FastGelu")
    models = {"float": erf.whole(), "float tanh": tanh.whole(), "int8": static(erf), "int8 tanh": static(tanh),
              "w8": insert.weight_only(erf)}  # fmt: skip
    sources = {"float tanh": "float", "int8": "float", "int8 tanh": "float tanh", "w8": "float"}
    found = dict[str, Candidate]()
    for name, model in models.items():
        path = tmp_path / f"{name}.onnx"
        ir.save(model, path)
        precision, form = name.split()[0], "tanh" if "tanh" in name else "erf"
        made = None if precision == "float" else MADE
        found[name] = Candidate(name, "model", form, precision, source=sources.get(name, ""), path=path, made=made)
    return found


def measured(candidates: Mapping[str, Candidate], originals: Mapping[str, Run]) -> dict[str, WaterfallResult]:
    rows = next(feeds(ffn(width=32, hidden=64)))
    data = Dataset("d", lambda: [Batch(rows)], divisible=True)
    path = candidates["float"].path
    assert path is not None
    ends = Ends.of(path, "cpu")
    with ExitStack() as stack:
        runs = {name: stack.enter_context(one.opened(ends, "cpu")) for name, one in candidates.items()}
        found = waterfalls(candidates.values(), runs, originals, ends, data, "cpu")
    return {one["variant"]: one for one in found}


def names(found: WaterfallResult) -> list[str]:
    return [step["name"] for step in found["steps"]]


def test_each_quantized_variant_begins_at_the_original(candidates: dict[str, Candidate]) -> None:
    path = candidates["float"].path
    assert path is not None
    with runtime.Session(path) as session:

        def original(rows: Arrays) -> Arrays:
            return {name: array * 1.001 for name, array in session(rows).items()}

        found = measured(candidates, {"model": original})
    assert set(found) == {"int8", "int8 tanh", "w8"}
    assert names(found["int8"]) == ["export", "weights in 8 bits", "activations in 8 bits"]
    assert names(found["int8 tanh"]) == ["export", "tanh form", "weights in 8 bits", "activations in 8 bits"]
    assert names(found["w8"]) == ["export", "w8"]
    steps = {step["name"]: step["noise"] for step in found["int8 tanh"]["steps"]}
    assert steps["export"] == pytest.approx(1e-6, rel=0.01)
    assert 0 < steps["tanh form"] < steps["activations in 8 bits"]


def test_a_file_that_came_as_onnx_is_the_original(candidates: dict[str, Candidate]) -> None:
    found = measured(candidates, {})
    assert names(found["int8"]) == ["weights in 8 bits", "activations in 8 bits"]
    assert names(found["int8 tanh"]) == ["tanh form", "weights in 8 bits", "activations in 8 bits"]
    assert all(step["noise"] > 0 for step in found["int8 tanh"]["steps"])

"""What is said of a quantized model: rows by module, accuracy where there are labels, saturation in one line."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from quantize_networks import Builder, feeds, ffn, network

from gelu_deploy.data import Batch, Dataset
from gelu_deploy.quantization import reporting
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.deciding import Decided, Wishes, decide
from gelu_deploy.quantization.decisions.sensitivity import Effect
from gelu_deploy.quantization.measures.cpu import CPUS
from gelu_deploy.quantization.measures.saturation import Saturation
from gelu_deploy.quantization.measures.sidebyside import unsaturated
from gelu_deploy.quantization.network import Network
from gelu_deploy.quantization.reporting import Made
from gelu_deploy.results import QuantizeResult


def data(made: Network, *, labels: int | None = None, name: str = "rows (held out)", seed: int = 1) -> Dataset:
    batches = [
        Batch(feed, None if labels is None else np.full(16, labels)) for feed in feeds(made, batch=16, seed=seed)
    ]
    return Dataset(name, lambda: batches, divisible=True)


def decided(made: Network, cpu: str = "avx2", **wishes: bool) -> Decided:
    asked = Wishes("minmax", **{"guard": False, "correct": False, **wishes})  # type: ignore[arg-type]
    return decide(made, data(made), data(made, seed=7), CPUS[cpu], asked)


def result(found: Decided, labelled: Dataset | None = None, **more: object) -> QuantizeResult:
    model = insert.static(found.corrected, unsaturated(found.recipe))
    made = Made(found.network, model, model, found, **more)  # type: ignore[arg-type]
    return reporting.result(made, data(found.network, seed=7), labelled)


def test_every_layer_has_its_row_with_what_was_measured() -> None:
    found = decided(ffn(width=32, hidden=64))
    said = result(found)
    assert [(one["module"], one["op"], one["kernels"], one["macs"]) for one in said["layers"]] == [
        ("fc1", "Gemm", ["QGemm"], 2048),
        ("fc2", "Gemm", ["QGemm"], 2048),
    ]
    first, second = said["layers"]
    assert first["sqnr_alone"] == pytest.approx(first["sqnr"], abs=1e-3)
    assert second["sqnr"] <= second["sqnr_alone"]
    assert second["sqnr"] == pytest.approx(said["sqnr"], abs=1e-3)
    assert first["cut_off"] == found.saturation["fc1"].outputs > 0
    assert [(one["module"], one["codes_below_zero"] > 0) for one in said["lobes"]] == [("fc2", True)]
    assert said["operators"] == ["QuantizeLinear", "QGemm", "Gelu", "QuantizeLinear", "QGemm"]
    assert said["calibration"]["data"] == "rows"
    assert said["calibration"]["method"] == "minmax"
    assert said["calibration"]["held-out SQNR with minmax"].endswith(" dB")


def test_a_layer_in_float_has_a_row_without_numbers() -> None:
    found = decided(ffn(width=32, hidden=64))
    said = result(found.with_recipe(replace(found.recipe, kept=frozenset({"fc1"}))))
    first, second = said["layers"]
    assert (first["integer"], first["reason"], math.isnan(first["sqnr_alone"])) == (False, "left in float", True)
    assert second["integer"]
    assert said["integer_share"] == pytest.approx(0.5)


def test_without_a_recipe_there_is_coverage_and_comparison_only() -> None:
    made = ffn(width=32, hidden=64)
    model = insert.dynamic(made, "u8")
    said = reporting.result(Made(made, model, model), data(made), None)
    assert (said["calibration"], said["lobes"], said["notes"], said["sensitivity"]) == ({}, [], [], [])
    assert all(one["integer"] and math.isnan(one["sqnr"]) and math.isnan(one["cut_off"]) for one in said["layers"])
    assert said["sqnr"] > 30


def test_accuracy_is_that_of_the_labelled_data_and_none_without_labels() -> None:
    found = decided(ffn(width=32, hidden=64))
    assert result(found)["accuracy"] is None
    assert result(found, data(found.network))["accuracy"] is None
    exam = result(found, data(found.network, labels=3, seed=9))["accuracy"]
    assert exam is not None
    assert exam["rows"] == 32
    assert exam["lost"] - exam["gained"] == round(32 * (exam["before"] - exam["after"]))
    assert 0 < exam["p"] <= 1


def test_answers_that_are_not_finite_are_worse_than_any_noise() -> None:
    made = ffn(width=32, hidden=64)
    broken = _with_nan(made)
    said = reporting.result(Made(made, broken, broken), data(made), None)
    assert said["sqnr"] == -math.inf
    assert said["agreement"] == 0


def _with_nan(made: Network) -> ir.Model:
    model = made.whole()
    bias = model.graph.initializers["fc1.bias"]
    assert bias.const_value is not None
    bias.const_value = ir.tensor(np.full_like(bias.const_value.numpy(), np.nan), name="fc1.bias")
    return model


def test_saturation_is_one_line_that_names_the_worst() -> None:
    cut = {"fc1": Saturation(0.01, 0.0278, 40.34, 26.41), "fc2": Saturation(0.0, 0.0004, 42.0, 41.98)}
    plain = decided(ffn(width=32, hidden=64), "vnni")
    assert result(plain)["notes"] == []
    found = replace(plain, saturation=cut, recipe=replace(plain.recipe, unsigned=frozenset({"fc1"})))
    (line,) = result(found)["notes"]
    assert line == (
        "16-bit sums would cut off outputs in 2 of 2 layers; 1 of them have unsigned weights, which avoids it; "
        "worst in fc1: 2.78% of its outputs, 40.3 dB becoming 26.4"
    )
    assert [one["cut_off"] for one in result(found)["layers"]] == [0.0278, 0.0004]
    (line,) = result(found.with_recipe(replace(found.recipe, kept=frozenset({"fc1"}))))["notes"]
    assert line.startswith("16-bit sums would cut off outputs in 1 of 1 layers; 0 of them")
    assert "worst in fc2: 0.04%" in line


def test_the_ranking_and_the_causes_are_passed_on() -> None:
    found = decided(ffn(width=32, hidden=64))
    effects = [Effect("fc2", "Gemm", "fc2", 0.5, 0.9, 20), Effect("fc1", "Gemm", "", math.inf, 0.0, -math.inf)]
    said = result(found, effects=effects)
    assert said["sensitivity"] == [
        {"module": "fc2", "node": "fc2", "kl": 0.5, "agreement": 0.9},
        {"module": "", "node": "fc1", "kl": math.inf, "agreement": 0.0},
    ]
    assert any("too small" in cause for cause in said["causes"])


def test_a_first_output_without_classes_has_no_agreement() -> None:
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    made = network(make.model([x], make.linear("fc", x, 32, 1)))
    said = result(decided(made), data(made, labels=0))
    assert math.isnan(said["agreement"])
    assert said["accuracy"] is None
    assert said["sqnr"] > 20

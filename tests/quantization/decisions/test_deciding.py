"""The decisions of static INT8: each as the user wants it, or as held-out data say, whatever machine this is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from quantize_judging import widened
from quantize_networks import answers, block, feeds, ffn

from gelu_deploy.arrays import Arrays
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.quantization.calibration import METHODS
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.correct import restored
from gelu_deploy.quantization.decisions.deciding import Decided, Wishes, decide
from gelu_deploy.quantization.measures.cpu import CPUS, Cpu
from gelu_deploy.quantization.measures.sidebyside import unsaturated
from gelu_deploy.quantization.network import Network
from gelu_deploy.scoring.metrics import sqnr

PLAIN = Wishes("minmax", guard=False, correct=False)
VNNI, AVX2, ARM = CPUS["vnni"], CPUS["avx2"], CPUS["arm64"]


def dataset(batches: Sequence[Arrays]) -> Dataset:
    return Dataset("rows", lambda: map(Batch, batches), divisible=True)


def decided(made: Network, wishes: Wishes, cpu: Cpu = VNNI) -> Decided:
    fit, held = list(feeds(made, count=3, batch=32)), list(feeds(made, batch=32, seed=7))
    return decide(made, dataset(fit), dataset(held), cpu, wishes)


def test_nothing_is_done_that_was_not_wished() -> None:
    made = ffn(width=32, hidden=64)
    found = decided(made, PLAIN)
    assert found.network is found.corrected is made
    assert (found.method, list(found.scores), made.notes) == ("minmax", ["minmax"], [])
    data = [batch["x"] for batch in feeds(made, count=3, batch=32)]
    assert found.recipe.ranges["x"] == (min(map(np.min, data)), max(map(np.max, data)))


def test_auto_takes_the_method_that_scored_best() -> None:
    found = decided(ffn(width=32, hidden=64), replace(PLAIN, method=None))
    assert set(found.scores) == set(METHODS)
    assert found.scores[found.method] == max(found.scores.values()) >= found.scores["minmax"]


def test_a_method_that_was_asked_for_is_used_though_another_is_better() -> None:
    best, asked = (decided(ffn(width=32, hidden=64), replace(PLAIN, method=one)) for one in (None, "entropy"))
    assert asked.method == "entropy"
    assert asked.scores["entropy"] == pytest.approx(best.scores["entropy"], abs=1e-6)
    assert asked.scores["entropy"] < best.scores[best.method]


def test_layers_that_are_kept_are_not_calibrated_scaled_or_corrected() -> None:
    made = ffn(width=32, hidden=64)
    found = decided(made, Wishes("minmax", kept=frozenset({"fc2"})))
    assert (list(found.recipe.kept), list(found.recipe.ranges)) == (["fc2"], ["x"])
    assert set(found.saturation) <= {"fc1"}
    own, better = (one.array(one.layers[1].bias) for one in (made, found.corrected))
    assert np.array_equal(own, better)
    operators = [node.op_type for node in insert.static(found.corrected, found.recipe).graph]
    assert operators.count("QuantizeLinear") == 1


def test_the_guard_and_the_correction_help_on_held_out_data() -> None:
    made = widened(block())
    held = list(feeds(made, batch=32, seed=7))
    plain, guarded, both = (
        decided(made, Wishes("minmax", guard=guard, correct=correct))
        for guard, correct in ((False, False), (True, False), (True, True))
    )
    noise = [_sqnr(made, one, held) for one in (plain, guarded, both)]
    assert noise[1] > noise[0] + 3
    assert noise[2] >= noise[1]
    assert guarded.network is not made
    assert both.corrected.notes[-1].startswith("bias correction of")


def _sqnr(made: Network, found: Decided, held: Sequence[Arrays]) -> float:
    model = insert.static(found.corrected, unsaturated(found.recipe))
    pairs = [(answers(made.whole(), one)["y"], answers(model, one)["y"]) for one in held]
    return sqnr(*(np.concatenate(arrays) for arrays in zip(*pairs, strict=True)))


@pytest.mark.parametrize("name", CPUS)
def test_types_are_those_of_the_target_and_it_is_judged_without_this_machines_saturation(name: str) -> None:
    made, cpu = ffn(width=32, hidden=64), CPUS[name]
    found = decided(made, PLAIN, cpu)
    assert (found.recipe.activation, found.recipe.weight) == (cpu.activation, cpu.weight)
    assert found.scores["minmax"] == pytest.approx(decided(made, PLAIN, VNNI).scores["minmax"], abs=1e-6)
    assert found.scores["minmax"] > 30  # with sums cut off: below 20
    assert bool(found.recipe.unsigned) == cpu.saturates


def test_what_16_bits_would_cut_off_is_repaired_only_where_it_matters() -> None:
    found = decided(ffn(width=32, hidden=64), PLAIN, AVX2)
    assert found.saturation["fc1"].loss > 1
    assert "fc1" in found.recipe.unsigned
    assert found.recipe.unsigned <= {node for node, one in found.saturation.items() if one.outputs}


def test_the_calibration_is_kept_where_it_is_wished(tmp_path: Path) -> None:
    made = ffn(width=32, hidden=64)
    first = decided(made, replace(PLAIN, cache=tmp_path))
    (kept,) = tmp_path.glob("*.npz")
    written = kept.stat().st_mtime_ns
    assert decided(made, replace(PLAIN, cache=tmp_path)).recipe == first.recipe
    assert kept.stat().st_mtime_ns == written


def test_a_layer_that_stays_float_after_all_has_its_own_bias_again() -> None:
    made = ffn(width=32, hidden=64)
    found = decided(made, Wishes("minmax", guard=False))
    assert found.corrected is not made
    mixed = found.with_recipe(replace(found.recipe, kept=frozenset({"fc1"})))
    biases = [[one.array(layer.bias) for layer in one.layers] for one in (made, mixed.corrected, found.corrected)]
    own, now, corrected = biases
    assert np.array_equal(now[0], own[0])
    assert not np.array_equal(corrected[0], own[0])
    assert np.array_equal(now[1], corrected[1])
    floats = restored(found.corrected, made, {"fc1", "fc2"})
    feed = next(feeds(made))
    assert np.array_equal(answers(floats.whole(), feed)["y"], answers(made.whole(), feed)["y"])
    assert floats.notes == found.corrected.notes

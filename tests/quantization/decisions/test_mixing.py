"""From a budget as a person writes it to the layers that stay in float."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from quantize_networks import Builder, answers, block, feeds, ffn, network

from gelu_deploy.data import Batch, Dataset
from gelu_deploy.errors import UsageError
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.deciding import Decided, Wishes, decide
from gelu_deploy.quantization.decisions.mixing import mixed, points, ranking
from gelu_deploy.quantization.decisions.sensitivity import Effect
from gelu_deploy.quantization.measures.cpu import CPUS
from gelu_deploy.quantization.measures.judging import Exam
from gelu_deploy.quantization.network import Network


@pytest.mark.parametrize(
    ("text", "wanted"), [("0.5%", 0.5), ("0.005", 0.5), ("0", 0), ("0%", 0), ("99%", 99), (" 1 %", 1), ("1e-3", 0.1)]
)
def test_points(text: str, wanted: float) -> None:
    assert points(text) == pytest.approx(wanted)


@pytest.mark.parametrize("text", ["", "%", "half", "-1%", "-0.1", "100%", "1", "5", "nan", "inf%", "0.5%%"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected points of accuracy such as 0\.5%, or a share such as 0\.005"):
        points(text)


def data(made: Network, *, count: int = 4, seed: int = 1) -> Dataset:
    return Dataset("rows", lambda: map(Batch, feeds(made, count=count, batch=32, seed=seed)), divisible=True)


def decided(made: Network, wishes: Wishes | None = None) -> Decided:
    return decide(made, data(made), data(made, seed=7), CPUS["vnni"], wishes or Wishes("minmax", guard=False))


def fragile() -> Network:
    """x (n, 32) -> fc1 -> act -> fc2 -> head; the input of fc1 is scaled so that 8 bits keep nothing of most of it."""
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    wide = np.ones(32)
    wide[0] = 2000
    w1 = make.random.normal(size=(32, 64)) / 5
    w1[0] = 0
    scaled = make.op("wide", "Mul", x, make.weight("wide.scale", wide))
    fc1 = make.op("fc1", "Gemm", scaled, make.weight("fc1.weight", w1), make.normal("fc1.bias", 64, scale=0.1))
    fc2 = make.linear("fc2", make.op("act", "Gelu", fc1), 64, 64)
    return network(make.model([x], make.linear("head", make.op("act2", "Gelu", fc2), 64, 10)))


def test_layers_are_ranked_or_every_operator() -> None:
    made = block(width=16, heads=2, length=4)
    found, fit, held = decided(made), data(made), data(made, seed=7)
    layers = ranking(found, fit, held, every=False, seconds=60)
    assert {one.node for one in layers} == {layer.node for layer in made.layers}
    every = ranking(found, fit, held, every=True, seconds=60)
    assert {one.node for one in every} > {one.node for one in layers}
    assert "attn.softmax" in {one.node for one in every}
    assert [one.rank for one in every] == sorted(one.rank for one in every)
    alone = {one.node: one.kl for one in layers}
    assert {one.node: one.kl for one in every if one.node in alone} == pytest.approx(alone)


def test_layers_that_are_kept_are_not_ranked_and_stay_kept() -> None:
    made = fragile()
    found = decided(made, Wishes("minmax", kept=frozenset({"fc2"}), guard=False))
    effects = ranking(found, data(made), data(made, seed=7), every=False, seconds=60)
    assert [one.node for one in effects] == ["fc1", "head"]
    outcome = mixed(found, effects, Exam(made, data(made, seed=7)), 2.0, 60)
    assert (sorted(outcome.recipe.kept), outcome.met) == (["fc1", "fc2"], True)


def test_the_layer_that_costs_the_answers_stays_float_and_only_that() -> None:
    made = fragile()
    found = decided(made)
    exam = Exam(made, data(made, seed=7))
    assert exam(insert.static(found.corrected, found.recipe)) > 10
    effects = ranking(found, data(made), data(made, seed=7), every=False, seconds=60)
    assert effects[0].node == "fc1"
    outcome = mixed(found, effects, exam, 2.0, 60)
    assert (list(outcome.recipe.kept), outcome.met) == (["fc1"], True)
    whole = found.with_recipe(outcome.recipe)
    assert exam(insert.static(whole.corrected, whole.recipe)) == pytest.approx(outcome.drop, abs=2)


@pytest.mark.parametrize("ranked", [[], [Effect("head", "Gemm", "", 1, 0, 3), Effect("act", "Gelu", "", 9, 0, 0)]])
def test_layers_that_the_ranking_did_not_reach_come_last(ranked: list[Effect]) -> None:
    made = fragile()
    outcome = mixed(decided(made), ranked, Exam(made, data(made, seed=7)), 2.0, 60)
    assert (list(outcome.recipe.kept), outcome.met) == (["fc1"], True)


def test_all_layers_in_float_lose_nothing() -> None:
    made = fragile()
    found, exam = decided(made), Exam(made, data(made, seed=7))
    assert found.corrected is not made
    outcome = mixed(found, [], exam, 0.0, 0)
    assert (outcome.drop, outcome.met, len(outcome.recipe.kept)) == (0, True, 3)
    feed = next(feeds(made))
    whole = found.with_recipe(outcome.recipe)
    got = answers(insert.static(whole.corrected, whole.recipe), feed)
    assert {name: array.tolist() for name, array in got.items()} == {
        name: array.tolist() for name, array in answers(made.whole(), feed).items()
    }


def test_no_number_is_never_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ffn(width=32, hidden=64)
    nothing: Callable[..., float] = lambda *_: math.nan  # noqa: E731
    exam = Exam(made, data(made))
    monkeypatch.setattr(Exam, "__call__", nothing)
    outcome = mixed(decided(made), [], exam, 50.0, 60)
    assert (outcome.met, math.isnan(outcome.drop)) == (False, True)

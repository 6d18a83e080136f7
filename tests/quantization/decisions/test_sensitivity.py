"""One operator at a time, and the fewest in float: with judges whose answers are known, and on real kernels."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import real_data
import real_models
from quantize_networks import Builder, answers, block, conv, feeds, ffn, network, ranges

from gelu_deploy.arrays import Arrays
from gelu_deploy.quantization.calibration import observe
from gelu_deploy.quantization.calibration import ranges as cut
from gelu_deploy.quantization.decisions import insert, sensitivity
from gelu_deploy.quantization.decisions.sensitivity import (
    Effect,
    by_default,
    default_operators,
    fewest_float,
    rank,
    read_and_made,
)
from gelu_deploy.quantization.network import Network, Recipe
from gelu_deploy.quantization.network.prepare import prepared

NAMES = list("abcdefgh")
Lost = Callable[[Recipe], float]


def costs(**each: float) -> Lost:
    """A judge: what the layers that are quantized lose together."""
    return lambda recipe: sum(cost for name, cost in each.items() if name not in recipe.kept)


def needing(*names: str) -> Lost:
    """A judge that is content when these are in float, whatever else is."""
    return lambda recipe: 0.0 if set(names) <= recipe.kept else 9.0


def search(judge: Lost, budget: float, order: Collection[str] = NAMES, seconds: float = 60) -> sensitivity.Mixed:
    return fewest_float(Recipe({}), list(order), judge, budget, seconds=seconds)


@pytest.mark.parametrize("count", range(4))
def test_the_fewest_are_found_wherever_they_stand(count: int) -> None:
    for names in itertools.combinations(NAMES, count):
        found = search(needing(*names), 0.5)
        assert (sorted(found.recipe.kept), found.met, found.drop) == (list(names), True, 0)


def test_the_worst_that_bring_it_below_the_budget() -> None:
    found = search(costs(a=4, b=2, c=1, d=0.5, e=0.25), 1.0)
    assert (sorted(found.recipe.kept), found.drop, found.met) == (["a", "b", "c"], 0.75, True)
    assert search(costs(a=4, b=2, c=1), 7.0).recipe.kept == frozenset()
    assert search(costs(a=4, b=2, c=1), 7.0).tried == ((0, 7.0),)
    assert len(search(costs(a=4, b=2, c=1), 1.0).tried) <= 2 + 3 + len(NAMES)


def test_what_is_kept_already_stays_kept() -> None:
    found = fewest_float(Recipe({}, kept=frozenset("z")), NAMES, needing("b"), 0.5, seconds=60)
    assert found.recipe.kept == {"b", "z"}


def test_a_budget_that_nothing_holds() -> None:
    found = search(lambda recipe: 5.0 - 0.25 * len(recipe.kept), 1.0)
    assert (found.met, found.drop, len(found.recipe.kept)) == (False, 3.0, 8)
    assert found.tried == ((0, 5.0), (8, 3.0))
    nothing = search(lambda _: 5.0, 1.0, order=())
    assert (nothing.met, nothing.drop, nothing.recipe.kept) == (False, 5.0, frozenset())


def test_no_number_is_more_than_any_budget() -> None:
    found = search(lambda recipe: 0.0 if "c" in recipe.kept else math.nan, 99)
    assert (list(found.recipe.kept), found.met) == (["c"], True)
    nothing = search(lambda _: math.nan, 99)
    assert (nothing.met, math.isnan(nothing.drop)) == (False, True)
    assert search(lambda recipe: 3.0 if recipe.kept else math.nan, 1).drop == 3.0


def test_when_the_time_is_up_the_best_so_far_is_the_answer() -> None:
    def slow(recipe: Recipe) -> float:
        time.sleep(0.02)
        return needing("a")(recipe)

    found = search(slow, 0.5, seconds=0)
    assert (sorted(found.recipe.kept), found.met, len(found.tried)) == (NAMES, True, 2)
    later = search(slow, 0.5, seconds=0.05)
    assert later.met
    assert 1 <= len(later.recipe.kept) < len(NAMES)


def test_the_worst_comes_first_and_what_is_no_number_before_it() -> None:
    rows = [
        Effect("fine", "Gemm", "", 0.1, 1, 40),
        Effect("bad", "Gemm", "", 2.0, 0.5, 3),
        Effect("worse", "Gemm", "", 2.0, 0.5, math.nan),
        Effect("infinite", "Gemm", "", math.inf, 0, 10),
        Effect("none", "Gemm", "", math.nan, 0, -math.inf),
    ]
    order = [one.node for one in sorted(rows, key=lambda one: one.rank)]
    assert set(order[:2]) == {"infinite", "none"}
    assert order[2:] == ["worse", "bad", "fine"]


def test_layers_are_ranked_by_what_each_does_alone() -> None:
    made = ffn(width=32, hidden=64)
    data = list(feeds(made, batch=32))
    narrow = {**ranges(made, data), "g": (-0.17, 0.1)}
    found = rank(made, Recipe(narrow, weight="u8"), ["fc1", "fc2"], data)
    assert [(one.node, one.op, one.module) for one in found] == [("fc2", "Gemm", "fc2"), ("fc1", "Gemm", "fc1")]
    assert found[0].sqnr < 10
    assert found[1].sqnr > 30
    assert found[0].kl > 100 * found[1].kl > 0
    assert found[0].agreement < found[1].agreement


def test_a_network_that_breaks_is_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ffn(width=32, hidden=64)
    data = list(feeds(made, batch=32))
    values = {**ranges(made, data), "x": (-0.5, 0.5)}

    def broken(one: Network, words: Recipe, _static: Any = insert.static) -> ir.Model:
        model: ir.Model = _static(one, words)
        if "fc2" not in words.kept:
            model.graph.outputs[0].name = "renamed"
            model.graph.node("fc2").op_type = "Nonsense"
        return model

    monkeypatch.setattr(sensitivity, "static", broken)
    first, second = rank(made, Recipe(values, weight="u8"), ["fc1", "fc2"], data)
    assert (first.node, math.isnan(first.kl), first.agreement, first.sqnr) == ("fc2", True, 0, -math.inf)
    assert second.node == "fc1"


def test_ranking_stops_when_the_time_is_up() -> None:
    made = ffn(width=32, hidden=64)
    data = list(feeds(made))
    assert rank(made, Recipe(ranges(made, data), weight="u8"), ["fc1", "fc2"], data, seconds=-1) == []


def test_the_operators_that_default_quantization_takes() -> None:
    names = default_operators(block(width=16, heads=2, length=4))
    assert {"attn.scores", "attn.softmax", "attn.scaled", "attn.mixed", "add1", "y", "mlp.fc1.gemm"} <= set(names)
    assert not {"mlp.act", "attn.turn", "mlp.fc1.rows", "attn.q.split"} & set(names)
    order = [node.name for node in block(width=16, heads=2, length=4).model.graph if node.name in names]
    assert list(names) == order
    assert default_operators(conv())[0] == "conv1"
    assert "pool" in default_operators(conv())


def test_values_that_an_operator_alone_needs_ranges_of() -> None:
    made = ffn(width=32, hidden=64)
    assert read_and_made(made, {"fc1"}) == ("x", "h")
    assert set(read_and_made(made, {"fc1", "fc2"})) == {"x", "h", "g", "y"}
    assert read_and_made(made, ()) == ()


def test_one_operator_by_default_has_codes_around_it_and_nothing_else() -> None:
    made = block(width=16, heads=2, length=4)
    data = list(feeds(made))
    values = read_and_made(made, {"attn.softmax"})
    model = by_default(made, made.model.graph.node("attn.softmax"), Recipe(_cut(made, values, data)))
    kinds = [node.op_type for node in model.graph]
    assert (kinds.count("QuantizeLinear"), kinds.count("DequantizeLinear")) == (2, 2)
    wanted, got = (answers(one, data[0], optimise=False)["y"] for one in (made.whole(), model))
    assert 0 < np.abs(wanted - got).max() < 0.1


def _cut(made: Network, values: Collection[str], data: list[Arrays]) -> dict[str, tuple[float, float]]:
    return cut(observe(made, values if isinstance(values, tuple) else tuple(values), data), "minmax")


def decomposed() -> Network:
    """x (n, 32) -> one channel that is wide -> LayerNorm in its own operators -> head of ten classes."""
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    wide = np.ones(32)
    wide[3] = 60
    scaled = make.op("wide", "Mul", x, make.weight("wide.scale", wide), module="embed")
    mean = make.op("mean", "ReduceMean", scaled, make.weight("mean.axes", np.array([-1])), module="norm", keepdims=1)
    centred = make.op("centred", "Sub", scaled, mean, module="norm")
    square = make.op("square", "Mul", centred, centred, module="norm")
    variance = make.op(
        "variance", "ReduceMean", square, make.weight("variance.axes", np.array([-1])), module="norm", keepdims=1
    )
    inner = make.op("inner", "Add", variance, make.weight("epsilon", np.float32(1e-5)), module="norm")
    normal = make.op("normal", "Div", centred, make.op("root", "Sqrt", inner, module="norm"), module="norm")
    fc1 = make.linear("fc1", normal, 32, 64)
    return network(make.model([x], make.linear("head", make.op("act", "Gelu", fc1), 64, 10)))


def test_inside_a_layer_norm_default_quantization_costs_most() -> None:
    made = decomposed()
    data = list(feeds(made, count=2, batch=64))
    names = default_operators(made)
    assert names == ("wide", "square", "inner", "fc1", "head")
    found = rank(made, Recipe(_cut(made, read_and_made(made, names), data), weight="u8"), names, data)
    assert [one.module for one in found] == ["norm", "norm", "embed", "fc1", "head"]
    assert found[1].kl > 1000 * found[3].kl


@pytest.mark.slow
def test_inside_magikas_layer_norms_default_quantization_costs_most() -> None:
    features, _ = real_data.labelled_files(96)
    made = prepared(str(real_models.magika()))
    (name,) = [value.name for value in made.model.graph.inputs if value.name not in made.held.names]
    data = [{name or "": features[start : start + 32]} for start in (0, 32, 64)]
    names = default_operators(made)
    found = rank(made, Recipe(_cut(made, read_and_made(made, names), data), weight="u8"), names, data)
    layers = {layer.node for layer in made.layers}
    assert not layers & {one.node for one in found[:3]}
    assert {one.op for one in found[:3]} <= {"Mul", "Sub", "Add", "ReduceMean", "Div", "Sqrt", "Pow"}

"""Bias correction: means that vanish, biases that appear, and what must stay as it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from quantize_judging import judge, recipe
from quantize_networks import Builder, block, conv, feeds, ffn, network

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.correct import corrected, mean_errors
from gelu_deploy.quantization.measures.sidebyside import side_by_side
from gelu_deploy.quantization.network import Network, Recipe


def _bare() -> Network:
    """A Conv, a Gemm and a MatMul without biases."""
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 3, 6, 6))
    c = make.op("act", "Gelu", make.op("conv", "Conv", x, make.normal("wc", 16, 3, 3, 3, scale=0.3)))
    flat = make.op("flat", "Flatten", make.op("pool", "GlobalAveragePool", c))
    g = make.op("act2", "Gelu", make.op("gemm", "Gemm", flat, make.normal("wg", 16, 32)))
    return network(make.model([x], make.op("y", "MatMul", g, make.normal("wm", 32, 8))))


@pytest.mark.parametrize(
    "made", [ffn(width=64, hidden=256), block(), conv(), conv(grouped=True)], ids=["ffn", "block", "conv", "grouped"]
)
def test_mean_errors_vanish_and_held_out_noise_shrinks(made: Network) -> None:
    data, held = list(feeds(made, count=4, batch=32)), list(feeds(made, batch=64, seed=7))
    words, judged = recipe(made, data), judge(made, data, held)
    fixed = corrected(made, words, data, judged)
    assert judged(fixed) > judged(made)
    assert fixed.notes[-1].startswith(f"bias correction of {len(made.layers)} layers: ")
    for batches, before in zip(
        _lacking(made, fixed, words, data), mean_errors(made, words, data).values(), strict=True
    ):
        assert np.abs(batches.mean(axis=0)).mean() < np.abs(before).mean() / 2


def _lacking(made: Network, fixed: Network, words: Recipe, data: list[Arrays]) -> list[Array]:
    """What each corrected integer layer lacks of the float layer as it was: [rows, channels]."""
    seen = [[*batch] for batch in side_by_side(made, insert.static(fixed, words), data)]
    gaps = [
        [np.moveaxis(one.wanted - one.alone, 1 if one.layer.op == "Conv" else -1, -1) for one in row] for row in seen
    ]
    return [np.concatenate([gap.reshape(-1, gap.shape[-1]) for gap in layer]) for layer in zip(*gaps, strict=True)]


def test_the_feed_forward_fixture_gains() -> None:
    made = ffn(width=192, hidden=768)
    data, held = list(feeds(made, count=8, batch=128)), list(feeds(made, batch=128, seed=7))
    judged = judge(made, data, held)
    assert judged(corrected(made, recipe(made, data), data, judged)) - judged(made) > 0.1


def test_layers_without_bias_get_one_and_a_matmul_cannot() -> None:
    made = _bare()
    data = list(feeds(made, count=4, batch=32))
    fixed = corrected(made, recipe(made, data), data, lambda _: 0.0)
    conv_, gemm, matmul = fixed.layers
    assert fixed.array(conv_.bias).shape == (16,)
    assert fixed.array(gemm.bias).shape == (32,)
    assert (matmul, fixed.notes[-1]) == (made.layers[2], "bias correction of 2 layers: 0.00 dB became 0.00")
    assert insert.static(fixed, recipe(fixed, data)).graph.num_nodes() > 7


def test_the_network_itself_and_a_bias_of_others_stay() -> None:
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    shared = make.normal("b", 32, scale=0.1)
    hidden = make.op("act", "Gelu", make.op("one", "Gemm", x, make.normal("w1", 32, 32), shared))
    made = network(make.model([x], make.op("two", "Gemm", hidden, make.normal("w2", 32, 32), shared)))
    before, data = made.array("b").copy(), list(feeds(made, batch=32))
    kept = replace(recipe(made, data), kept=frozenset({"two"}))
    fixed = corrected(made, kept, data, lambda _: 0.0)
    assert fixed.layers[1] == made.layers[1]
    assert np.array_equal(fixed.array("b"), before)
    assert np.array_equal(made.array("b"), before)
    assert not np.array_equal(fixed.array(fixed.layers[0].bias), before)
    assert fixed.array(fixed.layers[0].bias) == pytest.approx(before, abs=0.05)


def test_it_is_given_up_where_held_out_data_get_worse() -> None:
    made = ffn(width=32, hidden=64)
    data = list(feeds(made, batch=8))
    for after in (29.9, -np.inf, np.nan):
        scores = [after, 30.0]

        def judged(_: Network, scores: list[float] = scores) -> float:
            return scores.pop()

        assert corrected(made, recipe(made, data), data, judged) is made
    assert made.notes == []


def test_nothing_quantized_is_nothing_to_correct() -> None:
    made = ffn(width=32, hidden=64)
    data = list(feeds(made, batch=8))
    kept = replace(recipe(made, data), kept=frozenset(layer.node for layer in made.layers))
    assert corrected(made, kept, data, lambda _: pytest.fail("nobody to judge")) is made


def test_what_saturates_on_this_cpu_is_not_corrected() -> None:
    made = conv()
    data = list(feeds(made, count=4, batch=16))
    unsigned, signed = (mean_errors(made, recipe(made, data, kind), data) for kind in ("u8", "s8"))
    for node, errors in unsigned.items():
        assert np.array_equal(errors, signed[node])

"""Rewrites that leave the float network's answers alone: to the bit where they scale, to rounding where they add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quantize_judging import answers, recipe, widened
from quantize_networks import Builder, block, conv, feeds, ffn, network

from gelu_deploy.arrays import Array
from gelu_deploy.graph.scopes import module_of
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.scaling import narrowed, smoothed, split
from gelu_deploy.quantization.network import Layer, Network


def _ops(made: Network) -> Counter[str]:
    return Counter(node.op_type for node in made.model.graph)


def _layer(made: Network, node: str) -> Layer:
    return next(layer for layer in made.layers if layer.node == node)


def _same(made: Network, other: Network) -> bool:
    data = list(feeds(made, batch=8, seed=3))
    pairs = zip(answers(made, data), answers(other, data), strict=True)
    return all(np.array_equal(a[name], b[name]) for a, b in pairs for name in a)


def _transposed() -> Network:
    """x -> fc1 -> act -> fc2 with weights as PyTorch keeps them, and alpha."""
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 16))
    h = make.op("fc1", "Gemm", x, make.normal("w1", 32, 16), make.normal("b1", 32), transB=1)
    g = make.op("act", "Gelu", h)
    return network(make.model([x], make.op("fc2", "Gemm", g, make.normal("w2", 8, 32), alpha=0.5, transB=1)))


PLACES: dict[str, tuple[Callable[[], Network], str]] = {
    "gemm": (lambda: ffn(width=32, hidden=96), "fc2"),
    "matmul": (lambda: ffn(width=32, hidden=96, gemm=False), "fc2"),
    "rows": (lambda: block(width=32, heads=2), "mlp.fc2.gemm"),
    "transposed": (_transposed, "fc2"),
    "conv": (conv, "conv2"),
    "grouped": (lambda: conv(grouped=True), "conv2"),
}


def _inputs(made: Network, layer: Layer) -> int:
    weight = made.array(layer.weight)
    if layer.op == "Conv":
        group = made.model.graph.node(layer.node).attributes.get_int("group", 1)
        return int(weight.shape[1] * group)
    return int(weight.shape[1 - layer.axis])


@pytest.mark.parametrize("kind", PLACES)
@settings(deadline=None, max_examples=6)
@given(st.integers(0, 2**16), st.sampled_from([0.3, 0.5, 0.75, 1.0]))
def test_a_scaled_input_changes_no_bit(kind: str, seed: int, alpha: float) -> None:
    make, node = PLACES[kind]
    made = make()
    layer = _layer(made, node)
    random = np.random.default_rng(seed)
    channels = np.exp2(random.uniform(-6, 6, _inputs(made, layer))).astype(np.float32)
    channels[0] = 0
    other = narrowed(made, layer, channels, alpha)
    assert other is not None
    assert _same(made, other)
    assert _ops(other) - _ops(made) == Counter(Mul=1)
    assert _layer(other, node).input == f"{node}.mul"


@pytest.mark.parametrize("kind", ["gemm", "matmul", "rows", "transposed"])
def test_channels_set_apart_change_no_more_than_rounding(kind: str) -> None:
    make, node = PLACES[kind]
    made = make()
    layer = _layer(made, node)
    other = split(made, layer, np.array([3, 11]))
    data = list(feeds(made, batch=8))
    for right, got in zip(answers(made, data), answers(other, data), strict=True):
        assert got.keys() == right.keys()
        for name, array in right.items():
            assert got[name] == pytest.approx(array, abs=1e-5)
    assert _ops(other) - _ops(made) == Counter(Mul=1, Gather=1, MatMul=1, Add=1)
    weight = np.moveaxis(other.array(_layer(other, node).weight), layer.axis, -1)
    assert not weight[[3, 11]].any()
    assert np.array_equal(np.delete(weight, [3, 11], 0), np.delete(_rows(made, layer), [3, 11], 0))
    assert insert.static(other, recipe(other, data)).graph.outputs[0].name == made.model.graph.outputs[0].name


def _rows(made: Network, layer: Layer) -> Array:
    return np.moveaxis(made.array(layer.weight), layer.axis, -1)


def test_new_nodes_are_of_the_layers_module_and_the_old_network_is_as_it_was() -> None:
    made = ffn(width=32, hidden=96)
    before, weight = _ops(made), made.array("fc2.weight").copy()
    other = split(made, _layer(made, "fc2"), np.array([5]))
    assert _ops(made) == before
    assert np.array_equal(made.array("fc2.weight"), weight)
    new = [node for node in other.model.graph if node.op_type in {"Gather", "MatMul", "Add", "Mul"}]
    assert [module_of(node) for node in new] == ["fc2"] * 4
    assert _layer(other, "fc2").output == "y.narrow"
    assert set(other.held.names) == {"fc1.weight", _layer(other, "fc2").weight}
    again = narrowed(other, _layer(other, "fc2"), np.exp2(np.arange(96, dtype=np.float32) / 8), 0.5)
    assert again is not None
    assert _same(other, again)


def _channels(made: Network) -> dict[str, Array]:
    names = [layer.input for layer in made.layers]
    with made.showing(names) as run:
        found = [run(feed) for feed in feeds(made, batch=8)]
    return {n: np.abs(np.concatenate([one[n] for one in found])).max(axis=0) for n in names}


def test_norms_take_the_scale_of_all_their_readers_for_nothing() -> None:
    made = widened(widened(block(width=32, heads=2)), "norm1", 3, 32.0)
    before = _channels(made)
    other = smoothed(made, before, 0.5)
    assert other is not None
    assert _same(made, other)
    assert _ops(other) == _ops(made)
    after = _channels(other)
    for name in ("attn.q.rows", "attn.k.rows", "attn.v.rows", "mlp.fc1.rows"):
        assert after[name].max() / np.median(after[name]) < before[name].max() / np.median(before[name]) / 3
    assert np.array_equal(after["mlp.fc2.rows"], before["mlp.fc2.rows"])


@pytest.mark.parametrize("spoilt", ["", "read by others", "computed"])
def test_only_a_constant_norm_that_layers_alone_read_is_changed(spoilt: str) -> None:
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 16))
    gain, bias = make.weight("g", np.r_[1, 1, 50, np.ones(13)]), make.weight("b", np.zeros(16))
    used = make.op("abs", "Abs", gain) if spoilt == "computed" else gain
    normed = make.op("norm", "LayerNormalization", x, used, bias, axis=-1)
    made_by = make.op("fc", "Gemm", normed, make.normal("w", 16, 16))
    y = make.op("y", "Add", made_by, normed if spoilt == "read by others" else made_by)
    made = network(make.model([x], y))
    assert (smoothed(made, _channels(made), 0.5) is None) == bool(spoilt)


def test_even_channels_are_left_alone() -> None:
    made = ffn(width=32, hidden=96)
    weight = np.abs(made.array("fc2.weight")).max(axis=1)
    assert narrowed(made, _layer(made, "fc2"), weight, 0.5) is None
    assert narrowed(made, _layer(made, "fc2"), np.zeros(96, np.float32), 0.5) is None
    assert smoothed(made, {"x": weight}, 0.5) is None

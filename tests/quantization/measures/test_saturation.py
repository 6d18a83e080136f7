"""Pair saturation: the emulator against a plain reference, against the runtime's own kernels, and on whole layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from quantize_networks import answers, conv, feeds, ffn, ranges

from gelu_deploy import runtime
from gelu_deploy.arrays import Arrays
from gelu_deploy.quantization.decisions.insert import static
from gelu_deploy.quantization.measures.cpu import CPUS, here
from gelu_deploy.quantization.measures.products import matrices, rows
from gelu_deploy.quantization.measures.saturation import (
    affected,
    quantized,
    quantized_weights,
    repaired,
    saturating_matmul,
)
from gelu_deploy.quantization.network import Layer, Network, Recipe
from gelu_deploy.scoring.metrics import sqnr

Bytes = NDArray[Any]

SHAPES = [(1, 1, 1), (1, 7, 5), (2, 64, 48), (3, 63, 17), (1, 385, 65), (6, 300, 33), (7, 1025, 16), (33, 129, 70)]
saturates_here = pytest.mark.skipif(not here().saturates, reason="this CPU adds pairs of products in 32 bits")


def tile(shape: tuple[int, ...], seed: int) -> tuple[Bytes, Bytes]:
    m, k, n = shape
    random = np.random.default_rng(seed)
    return (
        random.integers(0, 256, (m, k), dtype=np.uint8),
        random.integers(-128, 128, (k, n), dtype=np.int8),
    )


def plainly(a: Bytes, b: Bytes) -> Bytes:
    """VPMADDUBSW, VPMADDWD by ones and VPADDD, one number after the other."""
    sums = np.zeros((a.shape[0], b.shape[1]), np.int32)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(0, a.shape[1], 2):
                pair = sum(int(x) * int(y) for x, y in zip(a[i, k : k + 2], b[k : k + 2, j], strict=True))
                sums[i, j] += np.int16(max(-32768, min(32767, pair)))
    return sums


def graph(op: str, x: Bytes, constants: Mapping[str, Bytes], output: ir.DataType, **attributes: Any) -> ir.Model:
    """One operator: its input ``x``, then constants."""
    source = ir.val("x", ir.DataType.from_numpy(x.dtype), ir.Shape(x.shape))
    held = [ir.val(name, const_value=ir.tensor(array, name=name)) for name, array in constants.items()]
    inputs = [source, *held]
    domain = "com.microsoft" if op == "QGemm" else ""
    node = ir.node(op, inputs, attributes, domain=domain, name="layer")
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(output)
    own = ir.Graph([source], node.outputs, nodes=[node], initializers=held, opset_imports={"": 20, "com.microsoft": 1})
    return ir.Model(own, ir_version=10)


def run(model: ir.Model, x: Bytes) -> Bytes:
    return runtime.evaluate(model, {"x": x}, optimise=True)["y"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES[:6], ids=str)
def test_the_emulator_is_the_plain_reference(shape: tuple[int, ...], seed: int) -> None:
    a, b = tile(shape, seed)
    got = saturating_matmul(a, b)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, plainly(a, b))


def test_one_pair_is_cut_off_at_either_end_and_a_lone_product_never() -> None:
    high, low = np.array([[127], [127]], np.int8), np.array([[-128], [-128]], np.int8)
    full = np.array([[255, 255]], np.uint8)
    assert saturating_matmul(full, high).tolist() == [[32767]]
    assert saturating_matmul(full, low).tolist() == [[-32768]]
    assert saturating_matmul(full[:, :1], high[:1]).tolist() == [[255 * 127]]
    assert saturating_matmul(np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.int8)).tolist() == [[0, 0, 0]] * 2


def test_seven_bits_never_saturate() -> None:
    a = np.full((1, 64), 255, np.uint8)
    for weight in (64, -64):
        b = np.full((64, 1), weight, np.int8)
        assert saturating_matmul(a, b).tolist() == (a.astype(np.int32) @ b.astype(np.int32)).tolist()


@saturates_here
@pytest.mark.parametrize("zeros", [(0, 0), (128, 0), (37, 5)], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matmulinteger_gives_the_emulated_sums(shape: tuple[int, ...], zeros: tuple[int, int]) -> None:
    a, b = tile(shape, 3)
    constants = {"b": b, "za": np.array(zeros[0], np.uint8), "zb": np.array(zeros[1], np.int8)}
    got = run(graph("MatMulInteger", a, constants, ir.DataType.INT32), a)
    shares = zeros[0] * b.sum(0, dtype=np.int32) + zeros[1] * a.sum(1, dtype=np.int32)[:, None]
    np.testing.assert_array_equal(got, saturating_matmul(a, b) - shares + zeros[0] * zeros[1] * a.shape[1])
    whole = (a.astype(np.int32) - zeros[0]) @ (b.astype(np.int32) - zeros[1])
    assert shape[1] < 7 or (got != whole).any(), "nothing saturated, so nothing was shown"


@saturates_here
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qgemm_gives_the_emulated_sums(shape: tuple[int, ...], transposed: int) -> None:
    a, b = tile(shape, 4)
    one, scales = np.ones((), np.float32), np.ones(shape[2], np.float32)
    zeros = np.zeros(shape[2], np.int8)
    held: dict[str, Bytes] = {
        "sa": one,
        "za": np.array(90, np.uint8),
        "b": b.T.copy() if transposed else b,
        "sb": scales,
        "zb": zeros,
    }
    model = graph("QGemm", a, held, ir.DataType.FLOAT, transB=transposed)
    expected = saturating_matmul(a, b) - 90 * b.sum(0, dtype=np.int32)
    np.testing.assert_array_equal(run(model, a), expected.astype(np.float32))


@saturates_here
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qlinearmatmul_gives_the_emulated_sums(shape: tuple[int, ...]) -> None:
    """Its result has 8 bits, so a scale spreads what there is over them."""
    a, b = tile(shape, 5)
    sums = saturating_matmul(a, b) - 90 * b.sum(0, dtype=np.int32)
    scale = np.float32(max(1, np.abs(sums).max()) / 120)
    one, scales, zeros = np.ones((), np.float32), np.ones(shape[2], np.float32), np.zeros(shape[2], np.int8)
    held: dict[str, Bytes] = {
        "sa": one,
        "za": np.array(90, np.uint8),
        "b": b,
        "sb": scales,
        "zb": zeros,
        "sy": np.array(scale),
    }
    held["zy"] = np.array(128, np.uint8)
    got = run(graph("QLinearMatMul", a, held, ir.DataType.UINT8), a)
    expected = np.rint(sums.astype(np.float32) * (np.float32(1) / scale)) + 128
    np.testing.assert_array_equal(got, np.clip(expected, 0, 255))


@saturates_here
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("inputs", "outputs"), [(2, 6), (4, 8), (6, 16), (16, 32), (32, 10)])
@pytest.mark.parametrize("kernel", [(3,), (1, 1), (2, 3), (5, 5)], ids=str)
def test_qlinearconv_gives_the_emulated_sums(
    kernel: tuple[int, ...], inputs: int, outputs: int, groups: int, repeats: int
) -> None:
    """Every place of the kernel sees the same patch, and the bias takes the expected sum away: 128 is left."""
    random = np.random.default_rng(6)
    patch = random.integers(0, 256, (1, inputs, *kernel), dtype=np.uint8)
    x = np.tile(patch, (1, 1) + (repeats,) * len(kernel))
    weight = random.integers(-128, 128, (outputs, inputs // groups, *kernel), dtype=np.int8)
    one, zeros = np.ones((), np.float32), np.zeros(outputs, np.int8)
    layer = Layer("layer", "Conv", "", "x", "w", "", "y", 0, 0, after_gelu=False)
    held: dict[str, Bytes] = {
        "sx": one,
        "zx": np.array(100, np.uint8),
        "w": weight,
        "sw": np.ones(outputs, np.float32),
        "zw": zeros,
    }
    held |= {"sy": one, "zy": np.array(128, np.uint8)}
    node = ir.node("Conv", [], {"group": groups})
    patches, columns = rows(layer, node, patch, weight, 1), matrices(layer, node, weight)
    sums = np.concatenate([saturating_matmul(a, b)[0] for a, b in zip(patches, columns, strict=True)])
    sums -= 100 * weight.reshape(outputs, -1).sum(1, dtype=np.int32)
    model = graph("QLinearConv", x, held | {"b": -sums}, ir.DataType.UINT8, strides=kernel, group=groups)
    got = run(model, x)
    np.testing.assert_array_equal(got, np.full_like(got, 128))


@saturates_here
def test_a_depthwise_convolution_does_not_saturate() -> None:
    x, weight = np.full((1, 8, 3, 3), 255, np.uint8), np.full((8, 1, 3, 3), 127, np.int8)
    one, zeros = np.ones((), np.float32), np.zeros(8, np.int8)
    held: dict[str, Bytes] = {
        "sx": one,
        "zx": np.array(0, np.uint8),
        "w": weight,
        "sw": np.ones(8, np.float32),
        "zw": zeros,
    }
    held |= {"sy": one, "zy": np.array(128, np.uint8), "b": np.full(8, -9 * 255 * 127, np.int32)}
    got = run(graph("QLinearConv", x, held, ir.DataType.UINT8, group=8), x)
    np.testing.assert_array_equal(got, np.full_like(got, 128))


Case = tuple[Network, Recipe, list[Arrays]]


def case(made: Network) -> Case:
    data = list(feeds(made, count=2, batch=32))
    return made, Recipe(ranges(made, data)), data


@pytest.fixture(scope="module")
def feed_forward() -> Case:
    """192-768-192 around a GELU; its input is centred."""
    return case(ffn(width=192, hidden=768))


def test_a_centred_input_saturates_and_a_gelus_output_does_not(feed_forward: Case) -> None:
    network, recipe, data = feed_forward
    found = affected(network, recipe, data, CPUS["avx2"])
    up, down = found["fc1"], found["fc2"]
    assert 0 < up.pairs < up.outputs
    assert up.loss > 0
    assert (down.pairs, down.outputs, down.loss) == (0, 0, 0)
    assert affected(network, recipe, data, CPUS["vnni"]) == {}


def test_only_layers_that_saturation_spoils_get_unsigned_weights(feed_forward: Case) -> None:
    network, recipe, data = feed_forward
    better = repaired(recipe, affected(network, recipe, data, CPUS["avx2"]))
    assert better == replace(recipe, unsigned=frozenset({"fc1"}))
    assert set(affected(network, better, data, CPUS["avx2"])) == {"fc2"}
    want, feed = answers(network.whole(), data[0])["y"], data[0]
    ways = {"spoilt": recipe, "repaired": better, "unsigned": replace(recipe, weight="u8")}
    noise = {name: sqnr(want, answers(static(network, one), feed)["y"]) for name, one in ways.items()}
    assert noise["repaired"] == pytest.approx(noise["unsigned"], abs=0.05)
    assert noise["repaired"] > noise["spoilt"] + 1 or not here().saturates


def test_layers_in_float_and_types_that_do_not_saturate_are_left_out(
    feed_forward: Case,
) -> None:
    network, recipe, data = feed_forward
    kept = replace(recipe, kept=frozenset({"fc1"}))
    assert list(affected(network, kept, data, CPUS["avx512"])) == ["fc2"]
    assert affected(network, replace(recipe, weight="u8"), data, CPUS["avx512"]) == {}


def test_codes_are_those_of_quantizelinear() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=1000).astype(np.float32)
    codes, scale, zero = quantized(x, (-1.5, 2.0))
    held: dict[str, Bytes] = {"s": np.array(scale, np.float32), "z": np.array(zero, np.uint8)}
    np.testing.assert_array_equal(codes, run(graph("QuantizeLinear", x, held, ir.DataType.UINT8), x))
    assert quantized(x, (1.0, 2.0))[1:] == (2 / 255, 0), "a range always holds 0"


def test_a_convolution_is_looked_at_place_by_place() -> None:
    network, recipe, data = case(conv(channels=16))
    found = affected(network, recipe, data, CPUS["avx2"])
    assert set(found) == {"conv1", "conv2", "head"}
    assert 0 < found["conv1"].pairs < 0.05
    assert found["conv1"].loss > 0
    assert found["conv2"].pairs == 0
    depthwise, recipe, data = case(conv(channels=16, grouped=True))
    assert set(affected(depthwise, recipe, data, CPUS["avx2"])) == {"conv1", "head"}


def test_weights_are_those_of_the_quantizer(feed_forward: Case) -> None:
    network, recipe, _ = feed_forward
    made = static(network, recipe)
    weights, scales = quantized_weights(network.array("fc1.weight"))
    (theirs,) = [v.const_value for n, v in made.graph.initializers.items() if n.startswith("fc1.weight_quantized")]
    (steps,) = [v.const_value for n, v in made.graph.initializers.items() if n.startswith("fc1.weight_scale")]
    assert theirs is not None
    assert steps is not None
    np.testing.assert_array_equal(weights, theirs.numpy())
    np.testing.assert_allclose(scales, steps.numpy(), rtol=1e-6)


@saturates_here
def test_a_quantized_model_gives_the_emulated_layer_here(feed_forward: Case) -> None:
    network, recipe, (feed, _) = feed_forward
    made = static(network, recipe)
    made.graph.outputs.append(next(v for node in made.graph for v in node.outputs if v.name == "h"))
    got = runtime.evaluate(made, feed, optimise=True)["h"]
    codes, scale, zero = quantized(feed["x"], recipe.ranges["x"])
    weights, steps = quantized_weights(network.array("fc1.weight"))
    step = scale * steps
    sums = saturating_matmul(codes, weights) - zero * weights.sum(0, dtype=np.int32)
    bias = np.rint(network.array("fc1.bias") / step)
    np.testing.assert_allclose(got, (sums + bias) * step, atol=float(step.max()))
    exact = (codes.astype(np.int32) - zero) @ weights.astype(np.int32)
    assert np.abs(got - (exact + bias) * step).max() > 100 * step.max()

"""What an x86 CPU without VNNI makes of a layer: VPMADDUBSW adds two products in 16 bits and cuts off the rest.

It emulates ONNX Runtime's u8·s8 kernels bit for bit and says which layers suffer; it neither calibrates nor quantizes
a model. Of the weights it knows the rule only: per channel, symmetric.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.quantization.measures.cpu import Cpu
from gelu_deploy.quantization.measures.products import depthwise, matrices, rows, spread
from gelu_deploy.quantization.network import Network, Range, Recipe
from gelu_deploy.scoring.metrics import Energy

SMALLEST, LARGEST = np.iinfo(np.int16).min, np.iinfo(np.int16).max
BATCHES = 4
"""Batches of the data that are looked at."""
ROWS = 64
"""Rows (for a Conv: places) of a batch that are looked at."""
PAIRS = 1 << 24
"""Pairs of products that are looked at in one layer; of a larger one, a part of the output channels."""

WRONG = 1e-3
"""Share of wrong outputs beyond which a layer is repaired."""
LOST = 0.1
"""Decibels beyond which it is."""

Codes = NDArray[np.uint8]
Weights = NDArray[np.int8]
Sums = NDArray[np.int32]


@dataclass(frozen=True)
class Saturation:
    """One layer on such a CPU, from a sample of its real inputs.

    Attributes:
        pairs: Share of the pairs of products that are cut off.
        outputs: Share of the outputs that are wrong by it.
        exact: SQNR of the layer in dB if nothing were cut off, against float.
        saturated: The same with what is cut off.
    """

    pairs: float
    outputs: float
    exact: float
    saturated: float

    @property
    def loss(self) -> float:
        """What saturation costs, in dB."""
        return self.exact - self.saturated


def saturating_matmul(a: Codes, b: Weights) -> Sums:
    """``a`` times ``b`` as the kernel computes it: int16 sums of the products 2k and 2k+1, then int32 sums of those.

    Zero points take no part: the kernel subtracts their share from the result. For a Conv the rows of ``a`` run over
    the kernel's places, at each over the channels of the group, and padding is the zero point.

    Args:
        a: uint8 [M, K].
        b: int8 [K, N].

    Returns:
        int32 [M, N]. Memory: a few times that, whatever K is.
    """
    return _exact(a, b) - _cut(a, b)[0]


def affected(network: Network, recipe: Recipe, data: Iterable[Arrays], cpu: Cpu) -> dict[str, Saturation]:
    """What saturation does to every layer of a recipe, by the name of its node; empty on a CPU that does not saturate.

    Args:
        network: The float network, whose inner values are the layers' inputs.
        recipe: Ranges of the inputs; layers kept in float or unsigned are left out, and a Conv of one channel per
            group, whose kernel adds in 32 bits.
        data: Batches; the first few are looked at, and of each a few rows, spread evenly.
        cpu: Where the model is to run.
    """
    settled = recipe.kept | recipe.unsigned
    layers = [layer for layer in network.layers if layer.node not in settled and layer.input in recipe.ranges]
    if not (cpu.saturates and (recipe.activation, recipe.weight) == ("u8", "s8") and layers):
        return {}
    nodes = {node.name: node for node in network.model.graph}
    weights = {layer.node: network.array(layer.weight) for layer in layers}
    layers = [layer for layer in layers if not depthwise(nodes[layer.node], weights[layer.node])]
    seen: dict[str, list[Array]] = {layer.node: [] for layer in layers}
    with network.showing(layer.input for layer in layers) as evaluation:
        for feeds in islice(data, BATCHES):
            shown = evaluation(feeds)
            for layer in layers:
                values = shown[layer.input if layer.input in shown else f"{layer.input}.shown"]
                seen[layer.node].append(rows(layer, nodes[layer.node], values, weights[layer.node], ROWS))
    return {
        layer.node: _measured(
            np.concatenate(seen[layer.node], axis=1),
            matrices(layer, nodes[layer.node], weights[layer.node]),
            recipe.ranges[layer.input],
        )
        for layer in layers
    }


def repaired(recipe: Recipe, found: Mapping[str, Saturation]) -> Recipe:
    """The recipe with unsigned weights, whose products are added in 32 bits, for the layers that saturation spoils.

    Weights of 7 bits would never saturate either and cost the runtime nothing, but 3 to 4 dB; unsigned ones hold the
    same 8 bits, and cost about a tenth of the layer's time.
    """
    spoilt = {node for node, one in found.items() if one.outputs > WRONG or one.loss > LOST}
    return replace(recipe, unsigned=recipe.unsigned | spoilt)


def quantized(values: Array, limits: Range) -> tuple[Codes, float, int]:
    """Activations as u8 codes, with their scale and zero point; the range is widened to hold 0, as ORT does."""
    low, high = min(limits[0], 0.0), max(limits[1], 0.0)
    scale = (high - low) / 255 or 1.0
    zero = round(-low / scale)
    return (np.clip(np.rint(values / scale) + zero, 0, 255)).astype(np.uint8), scale, zero


def quantized_weights(matrix: Array) -> tuple[Weights, Array]:
    """Weights [K, N] as int8, and the scale of each column."""
    scale = np.abs(matrix).max(axis=0) / 127
    scale[scale == 0] = 1
    return np.rint(matrix / scale).astype(np.int8), scale


def _measured(inputs: Array, weights: Array, limits: Range) -> Saturation:
    """One layer: ``inputs`` [groups, M, K], ``weights`` [groups, K, N]; of a large one every so many channels."""
    some = weights[..., spread(weights.shape[-1], max(1, 2 * PAIRS // max(1, inputs.size)))]
    energy = {name: Energy() for name in ("exact", "saturated")}
    pairs, wrong = 0, 0
    for floats, matrix in zip(inputs, some, strict=True):
        codes, scale, zero = quantized(floats, limits)
        reference = floats.astype(np.float64) @ matrix
        weight, steps = quantized_weights(matrix)
        exact, (cut, count) = _exact(codes, weight), _cut(codes, weight)
        share = zero * weight.sum(axis=0, dtype=np.int64)
        energy["exact"].add(reference, (exact - share) * (scale * steps))
        energy["saturated"].add(reference, (exact - cut - share) * (scale * steps))
        pairs, wrong = pairs + count, wrong + int(np.count_nonzero(cut))
    products = inputs.size * some.shape[-1]
    outputs = inputs.shape[0] * inputs.shape[1] * some.shape[-1]
    return Saturation(2 * pairs / products, wrong / outputs, *(one.db for one in energy.values()))


def _exact(a: Codes, b: Weights) -> Sums:
    """``a`` times ``b`` in int32; float64 holds every sum exactly, and multiplies matrices fast."""
    product: Sums = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(np.int32)
    return product


def _cut(a: Codes, b: Weights) -> tuple[Sums, int]:
    """How much of each sum 16 bits cut off, int32 [M, N], and of how many pairs; only pairs that can be are tried."""
    odd = a.shape[1] % 2
    left = np.pad(a, ((0, 0), (0, odd))).astype(np.int32)
    right = np.pad(b, ((0, odd), (0, 0))).astype(np.int32)
    largest = left.max(axis=0, initial=0) * np.abs(right).max(axis=1, initial=0)
    lost, count = np.zeros((len(a), b.shape[1]), np.int32), 0
    for k in 2 * np.flatnonzero(largest[::2] + largest[1::2] > LARGEST):
        sums = np.outer(left[:, k], right[k]) + np.outer(left[:, k + 1], right[k + 1])
        cut = sums - np.clip(sums, SMALLEST, LARGEST)
        count += int(np.count_nonzero(cut))
        lost += cut
    return lost, count

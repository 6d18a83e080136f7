"""The outlier guard: a few wide channels would cost all others their codes, so they are narrowed or set apart.

What one operator makes can be divided by a power of two per channel, and the weights that read it multiplied by the
same, without changing a bit of the float network (Xiao et al., "SmoothQuant", 2022). Behind a LayerNormalization that
costs nothing, its own scale and bias take the division; GELU(x)/s is no GELU of anything, so behind a GELU it is one
Mul. Or the widest channels go through a small float product beside the integer one (Dettmers et al., "LLM.int8()",
2022). What helps is decided on held-out data; this knows nothing of how that is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gelu_deploy.arrays import Array
from gelu_deploy.quantization.calibration import Observation
from gelu_deploy.quantization.decisions.editing import Judge
from gelu_deploy.quantization.decisions.scaling import narrowed, smoothed, split
from gelu_deploy.quantization.network import Layer, Network

OUTLYING = 4.0
"""A channel is an outlier when its largest magnitude is this many times that of the median channel."""
ALPHAS = (0.5, 0.75)
"""How much of the difficulty goes from the activation into the weights, as SmoothQuant calls it."""
ASIDE = 1 / 32
"""Largest share of the channels that may go through a float product."""
PERCENT = 1 / 12
"""What one per cent more time of a layer must gain, in dB."""


@dataclass(frozen=True)
class Candidate:
    """One way out for one place.

    Attributes:
        what: It, in words.
        cost: What it must gain on held-out data to be worth its time, in dB.
        network: The network with it.
    """

    what: str
    cost: float
    network: Network


def guarded(network: Network, observations: Mapping[str, Observation], judge: Judge) -> Network:
    """The network, rewritten wherever that helps its integer model; the float network answers as before.

    Args:
        network: Float network; it is not changed.
        observations: Of its layers' inputs.
        judge: Called once, once for each of ``ALPHAS`` where there are norms, and at most four times for each layer
            behind a GELU that has outlier channels. What a rewritten network's layers read may have other names.

    Returns:
        Another network with one note for each rewrite, or this one.
    """
    channels = {name: seen.channels for name, seen in observations.items() if seen.channels.size}
    layers = outlying(network, channels)
    if not layers and not any(node.op_type == "LayerNormalization" for node in network.model.graph):
        return network
    network, score = _better(network, judge(network), _smooth(network, channels), judge)
    for layer in layers:
        network, score = _better(network, score, _ways(network, layer, channels[layer.input]), judge)
    return network


def outlying(network: Network, channels: Mapping[str, Array]) -> list[Layer]:
    """Layers behind a GELU whose input has outlier channels, the widest first."""
    ratios = {layer.node: ratio(channels[layer.input]) for layer in network.layers if layer.input in channels}
    wide = [layer for layer in network.layers if layer.after_gelu and ratios.get(layer.node, 0) > OUTLYING]
    return sorted(wide, key=lambda layer: -ratios[layer.node])


def ratio(channels: Array) -> float:
    """Largest magnitude of any channel over that of the median one; 0 where fewer than two are alive.

    The median stays where it is however many outliers there are; a quantile of all elements moves with them.
    """
    alive = channels[channels > 0]
    return float(alive.max() / np.median(alive)) if alive.size > 1 else 0.0


def _better(network: Network, score: float, candidates: Iterable[Candidate], judge: Judge) -> tuple[Network, float]:
    """The candidate that gains most beyond its cost, with its score; the network itself where none does."""
    best, net, after = network, score, score
    for candidate in candidates:
        found = judge(candidate.network)
        if found - candidate.cost > net:
            best, net, after = candidate.network, found - candidate.cost, found
            best.notes[len(network.notes) :] = [f"{candidate.what}: {score:.2f} dB became {found:.2f}"]
    return best, after


def _smooth(network: Network, channels: Mapping[str, Array]) -> Iterator[Candidate]:
    for alpha in ALPHAS:
        made = smoothed(network, channels, alpha)
        if made:
            yield Candidate(f"channels behind norms scaled, alpha {alpha:g}", PERCENT / 2, made)


def _ways(network: Network, layer: Layer, channels: Array) -> Iterator[Candidate]:
    """A Mul costs about 3 % of a feed-forward block's time, a product aside 9 %."""
    layer = next(one for one in network.layers if one.node == layer.node)
    for alpha in ALPHAS:
        made = narrowed(network, layer, channels, alpha)
        if made:
            yield Candidate(f"{layer.name}: input channels scaled, alpha {alpha:g}", 3 * PERCENT, made)
    if layer.op == "Conv":
        return
    median = np.median(channels[channels > 0])
    counts = {int(np.sum(channels > times * median)) for times in (OUTLYING, OUTLYING / 2)}
    for count in sorted(counts):
        if count <= channels.size * ASIDE:
            wide = np.sort(np.argsort(-channels, kind="stable")[:count])
            made = split(network, layer, wide)
            yield Candidate(f"{layer.name}: {count} widest input channels in float", 9 * PERCENT, made)

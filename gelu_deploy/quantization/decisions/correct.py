"""Bias correction: rounding shifts the mean of a layer's output, and its bias can take that back.

A GELU's output is mostly above zero, so what its layer's weights lose in rounding does not cancel out (Nagel et al.,
"Data-Free Quantization Through Weight Equalization and Bias Correction", 2019). It knows nothing of ranges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.editing import Edit, Judge
from gelu_deploy.quantization.measures.sidebyside import quantized, side_by_side, unsaturated
from gelu_deploy.quantization.network import Network, Recipe


def corrected(network: Network, recipe: Recipe, data: Iterable[Arrays], judge: Judge) -> Network:
    """The network with biases that make up for the mean error of every quantized Conv and Gemm; or itself.

    Each layer is corrected for what it does wrong alone, on float inputs, so one pass over the data serves all.
    (Within the integer model errors of earlier layers would be corrected twice; layer by layer, pass after pass, gains
    a few hundredths of a dB more.)

    Args:
        network: Float network; it is not changed. The result is a float network that is wrong by what rounding adds.
        recipe: As the integer model will be made.
        data: Calibration data.
        judge: Called twice; the correction is given up where it makes held-out data worse.
    """
    shifts = mean_errors(network, recipe, data)
    if not shifts:
        return network
    better = _shifted(network, shifts)
    before, after = judge(network), judge(better)
    if not after >= before:
        return network
    better.notes.append(f"bias correction of {len(shifts)} layers: {before:.2f} dB became {after:.2f}")
    return better


def restored(better: Network, network: Network, kept: Collection[str]) -> Network:
    """``better``, which :func:`corrected` made of ``network``, with the own biases of layers that stay float after all.

    They make no mean error that a bias could make up for.
    """
    edit, own = Edit(better), {layer.node: layer for layer in network.layers}
    for layer in better.layers:
        before = own[layer.node]
        if layer.node in kept and layer.bias != before.bias:
            bias = network.array(before.bias) if before.bias else np.zeros_like(better.array(layer.bias))
            edit.change(layer, bias=edit.give(edit.node(layer.node), 2, bias, f"{layer.node}.bias"))
    return edit.done()


def mean_errors(network: Network, recipe: Recipe, data: Iterable[Arrays]) -> dict[str, Array]:
    """By node, what each quantized Conv and Gemm lacks on average alone: float64 ``[output channels]``.

    In exact integer arithmetic: what saturates on this CPU alone is not corrected.
    """
    sums, rows = defaultdict[str, Array](lambda: np.zeros(())), defaultdict[str, int](int)
    model = insert.static(network, unsaturated(recipe))
    layers = [layer for layer in quantized(network, model) if layer.op != "MatMul"]
    for batch in side_by_side(network, model, data, layers):
        for seen in batch:
            axis = 1 if seen.layer.op == "Conv" else -1
            gap = np.moveaxis(seen.wanted.astype(np.float64) - seen.alone, axis, -1)
            flat = gap.reshape(-1, gap.shape[-1])
            sums[seen.layer.node] = sums[seen.layer.node] + flat.sum(axis=0)
            rows[seen.layer.node] += len(flat)
    means = {node: total / rows[node] for node, total in sums.items() if rows[node]}
    return {node: mean for node, mean in means.items() if np.isfinite(mean).all()}


def _shifted(network: Network, shifts: dict[str, Array]) -> Network:
    edit = Edit(network)
    for name, shift in shifts.items():
        node = edit.node(name)
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        old = np.zeros(1, np.float32) if bias is None else edit.array(bias)
        bias_name = edit.give(node, 2, (old + shift).astype(old.dtype), f"{name}.bias")
        edit.change(edit.layers[name], bias=bias_name)
    return edit.done()

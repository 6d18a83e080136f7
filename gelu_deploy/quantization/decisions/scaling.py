"""Rewrites of a float network that leave its answers alone and make what its layers read easier to hold in 8 bits.

Scales are powers of two: dividing a channel by one, and multiplying the weights that read it, changes no bit of the
answers. Whether a rewrite helps is for others to find out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from gelu_deploy.arrays import Array
from gelu_deploy.quantization.decisions.editing import Edit
from gelu_deploy.quantization.network import Layer, Network

Channels = Mapping[str, Array]
"""Largest magnitude in each channel of a value, by its name."""


def smoothed(network: Network, channels: Channels, alpha: float) -> Network | None:
    """SmoothQuant behind every LayerNormalization that only layers read: its scale and bias take the division.

    Args:
        network: Float network; it is not changed.
        channels: Of the layers' inputs.
        alpha: Share of the difficulty that goes into the weights, 0 to 1.

    Returns:
        Another network, whose answers are the same; None where no channel is to be scaled.
    """
    edit, changed = Edit(network), 0
    for norm in [node for node in edit.model.graph if node.op_type == "LayerNormalization" and not node.domain]:
        layers, affine = _readers(edit, norm.outputs[0]), edit.constants(norm.inputs[1:])
        if not layers or affine is None or layers[0].input not in channels:
            continue
        weights = np.stack([_reach(edit, layer) for layer in layers]).max(axis=0)
        scale = _scale(channels[layers[0].input], weights, alpha)
        if scale is None or any(array.shape != scale.shape for array in affine):
            continue
        for place, value in enumerate(norm.inputs[1:], 1):
            if value is not None:
                edit.give(norm, place, edit.array(value) / scale, f"{value.name}.smooth")
        for layer in layers:
            _multiply(edit, layer, scale)
        changed += 1
    return edit.done() if changed else None


def narrowed(network: Network, layer: Layer, channels: Array, alpha: float) -> Network | None:
    """The same before one layer, as a Mul of what it reads; None where no channel is to be scaled."""
    edit = Edit(network)
    scale = _scale(channels, _reach(edit, layer), alpha)
    if scale is None:
        return None
    _divide(edit, layer, 1 / scale)
    _multiply(edit, layer, scale)
    return edit.done()


def split(network: Network, layer: Layer, wide: Array) -> Network:
    """A float product for some input channels of a Gemm or MatMul, beside the layer, which sees zeros there.

    Args:
        network: Float network; it is not changed.
        layer: A layer of it.
        wide: Indices of the channels, int64.
    """
    edit = Edit(network)
    node = edit.node(layer.node)
    source, weight, rows = node.inputs[0], edit.array(node.inputs[1]), 1 - layer.axis
    assert source is not None
    keep = np.ones(weight.shape[rows], np.float32)
    keep[wide] = 0
    _divide(edit, layer, keep)
    _multiply(edit, layer, keep)
    factor = np.take(weight, wide, axis=rows) * np.float32(node.attributes.get_float("alpha", 1.0))
    few = edit.insert(node, "Gather", source, edit.constant(f"{layer.node}.wide", wide), axis=-1)
    product = edit.constant(f"{layer.node}.wide.weight", factor if rows == 0 else factor.T)
    aside = edit.insert(node, "MatMul", few, product)
    _add(edit, layer, aside)
    return edit.done()


def _divide(edit: Edit, layer: Layer, factor: Array) -> None:
    """Multiply what ``layer`` alone reads by one number per channel."""
    node = edit.node(layer.node)
    source, spatial = node.inputs[0], edit.array(node.inputs[1]).ndim - 2
    assert source is not None
    shaped = factor.reshape(-1, *(1,) * spatial) if layer.op == "Conv" else factor
    scaled = edit.insert(node, "Mul", source, edit.constant(f"{layer.node}.scale", shaped))
    scaled.type, scaled.shape = source.type, source.shape
    node.replace_input_with(0, scaled)
    edit.change(layer, input=scaled.name or "")


def _multiply(edit: Edit, layer: Layer, scale: Array) -> None:
    """Multiply the weights that read each channel."""
    node = edit.node(layer.node)
    weight = edit.array(node.inputs[1])
    if layer.op != "Conv":
        product = weight * np.expand_dims(scale, layer.axis)
    else:
        groups, rest = node.attributes.get_int("group", 1), weight.shape[1:]
        grouped = weight.reshape(groups, -1, rest[0], int(np.prod(rest[1:])))
        product = (grouped * scale.reshape(groups, 1, rest[0], 1)).reshape(weight.shape)
    edit.change(layer, weight=edit.give(node, 1, product.astype(weight.dtype), f"{layer.node}.weight"))


def _add(edit: Edit, layer: Layer, aside: ir.Value) -> None:
    """Add ``aside`` to what the layer makes; the sum takes over its name and its readers."""
    node = edit.node(layer.node)
    narrow = node.outputs[0]
    whole = edit.insert(node, "Add", narrow, aside, after=True)
    whole.shape, name = narrow.shape, narrow.name
    narrow.replace_all_uses_with(whole, replace_graph_outputs=True)
    adder = whole.producer()
    assert adder is not None
    adder.replace_input_with(0, narrow)
    narrow.name, whole.name = f"{name}.narrow", name
    edit.change(layer, output=narrow.name)


def _scale(channels: Array, weights: Array, alpha: float) -> Array | None:
    """Powers of two, about 1 for the median channel: max|x|^alpha / max|w|^(1 - alpha); None where all are 1."""
    alive = (channels > 0) & (weights > 0)
    if not alive.any():
        return None
    raw = alpha * np.log2(channels[alive].astype(np.float64)) - (1 - alpha) * np.log2(weights[alive].astype(np.float64))
    scale = np.ones(channels.shape, np.float32)
    scale[alive] = np.exp2(np.clip(np.round(raw - np.median(raw)), -16, 16))
    return None if (scale == 1).all() else scale


def _reach(edit: Edit, layer: Layer) -> Array:
    """Largest magnitude among the weights that read each channel of the layer's input."""
    node = edit.node(layer.node)
    weight: Array = np.abs(edit.array(node.inputs[1]))
    if layer.op != "Conv":
        reach: Array = weight.max(axis=layer.axis)
        return reach
    groups = node.attributes.get_int("group", 1)
    grouped = weight.reshape(groups, -1, weight.shape[1], int(np.prod(weight.shape[2:])))
    reach = grouped.max(axis=(1, 3))
    return reach.reshape(-1)


def _readers(edit: Edit, value: ir.Value) -> list[Layer]:
    """The layers that read ``value``, maybe as rows of a matrix; empty where anything else reads it too."""
    found = list[Layer]()
    for node, place in value.uses():
        layer = edit.layers.get(node.name or "")
        if node.op_type == "Reshape" and place == 0 and _same_channels(value, node.outputs[0]):
            more = _readers(edit, node.outputs[0])
        else:
            more = [layer] if layer is not None and layer.op != "Conv" and place == 0 else []
        if not more:
            return []
        found += more
    return [] if value.is_graph_output() else found


def _same_channels(before: ir.Value, after: ir.Value) -> bool:
    last = [value.shape[-1] if value.shape else None for value in (before, after)]
    return isinstance(last[0], int) and last[0] == last[1]

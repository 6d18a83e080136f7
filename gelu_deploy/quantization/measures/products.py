"""A layer as matrix products: the rows that its weights are multiplied with, in the order in which kernels add.

It knows Conv, Gemm and MatMul, and nothing of integers. A Conv is one product for each of its groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.lib.stride_tricks import sliding_window_view

from gelu_deploy.arrays import Array
from gelu_deploy.quantization.network import Layer


def matrices(layer: Layer, node: ir.Node, weight: Array) -> Array:
    """The weights as [groups, K, N]: K runs over the kernel's places, at each over the channels of the group."""
    if layer.op != "Conv":
        return np.moveaxis(weight, layer.axis, -1)[None]
    groups = node.attributes.get_int("group", 1)
    last = np.moveaxis(weight, 1, -1)
    return last.reshape(groups, len(last) // groups, -1).transpose(0, 2, 1)


def rows(layer: Layer, node: ir.Node, values: Array, weight: Array, limit: int) -> Array:
    """At most ``limit`` rows of the layer's input as [groups, rows, K], spread evenly; padding is 0."""
    if layer.op != "Conv":
        flat = values.T if node.attributes.get_int("transA", 0) else values.reshape(-1, values.shape[-1])
        return flat[spread(len(flat), limit)][None]
    windows = _windows(node, values, weight.shape[2:])
    spatial = weight.ndim - 2
    places = (windows.shape[0], *windows.shape[2 : 2 + spatial])
    batch, *at = np.unravel_index(spread(int(np.prod(places)), limit), places)
    taken: Array = np.moveaxis(windows, 1, 1 + spatial)[(batch, *at)]
    groups = node.attributes.get_int("group", 1)
    grouped = np.moveaxis(taken.reshape(len(taken), groups, -1, *weight.shape[2:]), 2, -1)
    return grouped.reshape(len(taken), groups, -1).transpose(1, 0, 2)


def depthwise(node: ir.Node, weight: Array) -> bool:
    """Whether every channel is convolved by itself, which kernels do another way."""
    return node.op_type == "Conv" and weight.shape[1] == 1 and weight.shape[0] == node.attributes.get_int("group", 1)


def _windows(node: ir.Node, values: Array, kernel: tuple[int, ...]) -> Array:
    """A view of what the kernel sees: [batch, channels, places…, kernel…]."""
    spatial = len(kernel)
    strides = _ints(node, "strides") or (1,) * spatial
    dilations = _ints(node, "dilations") or (1,) * spatial
    reach = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    pads = _pads(node, values.shape[2:], strides, reach)
    padded = np.pad(values, ((0, 0), (0, 0), *pads))
    windows = sliding_window_view(padded, reach, axis=tuple(range(2, 2 + spatial)))
    steps: tuple[Any, ...] = tuple(slice(None, None, step) for step in (*strides, *dilations))
    view: Array = windows[(slice(None), slice(None), *steps)]
    return view


def _pads(
    node: ir.Node, sizes: tuple[int, ...], strides: tuple[int, ...], reach: tuple[int, ...]
) -> list[tuple[int, int]]:
    """What is added before and after each spatial axis."""
    said = _ints(node, "pads") or (0,) * (2 * len(reach))
    auto = node.attributes.get_string("auto_pad", "NOTSET")
    if not auto.startswith("SAME"):
        return list(zip(said[: len(reach)], said[len(reach) :], strict=True))
    wanted = [
        max(0, (-(-size // step) - 1) * step + span - size)
        for size, step, span in zip(sizes, strides, reach, strict=True)
    ]
    upper = [(more // 2, more - more // 2) for more in wanted]
    return upper if auto == "SAME_UPPER" else [(after, before) for before, after in upper]


def _ints(node: ir.Node, name: str) -> tuple[int, ...]:
    return tuple(node.attributes.get_ints(name, ()))


def spread(count: int, limit: int) -> Array:
    """At most ``limit`` different indices below ``count``, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).astype(np.int64))

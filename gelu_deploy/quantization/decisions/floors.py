"""How far down a layer's output is worth any code: below about -4 a GELU makes nothing of it, below 0 a ReLU.

The lower part of such a range is cut off before any method looks at it; the codes go to what the activation lets
through. It knows graphs and observations, and nothing of how ranges are chosen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.quantization.calibration import Observation
from gelu_deploy.quantization.network import Network

FLOORS = {"Gelu": -4.0, "Relu": 0.0, "HardSwish": -3.0}
"""What each makes of less is at most 1.3e-4 in magnitude (GELU(-4), either form), or exactly 0."""
CARRIERS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Identity"}
"""Operators that hand on what they read."""


def floored(network: Network, seen: Mapping[str, Observation]) -> dict[str, Observation]:
    """The observations, those of outputs that only such activations read cut off below."""
    made = {value.name: value for node in network.model.graph for value in node.outputs}
    found = dict(seen)
    for layer in network.layers:
        floor = floor_of(made[layer.output])
        if layer.output in seen and floor is not None:
            found[layer.output] = seen[layer.output].above(floor)
    return found


def floor_of(value: ir.Value) -> float | None:
    """The number below which nobody who reads ``value`` tells any from another; None where there is none."""
    if value.is_graph_output() or not value.uses():
        return None
    floors = [_floor(node, value) for node in value.consumers()]
    known = [floor for floor in floors if floor is not None]
    return min(known) if len(known) == len(floors) else None


def _floor(node: ir.Node, value: ir.Value) -> float | None:
    if node.domain not in {"", "ai.onnx"}:
        return None
    if node.op_type in FLOORS:
        return FLOORS[node.op_type]
    if node.op_type in CARRIERS and node.inputs[0] is value:
        return floor_of(node.outputs[0])
    others = [tensor_of(one) for one in node.inputs if one is not None and one is not value]
    if node.op_type != "Add" or len(others) != 1 or others[0] is None:
        return None
    below = floor_of(node.outputs[0])
    return None if below is None else below - float(np.max(others[0].numpy()))

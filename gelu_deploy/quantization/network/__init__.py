"""The words of the INT8 recipe: the float network made ready, its layers, and the decisions about them.

It decides nothing itself, and knows neither calibration nor ONNX Runtime's quantizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.arrays import Array
from gelu_deploy.graph import hollow

Integer = Literal["u8", "s8"]
Range = tuple[float, float]
"""Smallest and largest value that a tensor is to hold."""


@dataclass(frozen=True)
class Layer:
    """One operator with a constant weight, the only kind that is quantized.

    Attributes:
        node: Name of the node, unique in the graph.
        op: ``Conv``, ``Gemm`` or ``MatMul``.
        module: PyTorch module that it comes from, ``""`` if unknown.
        input: Value that it reads: the activation.
        weight: Initializer that it reads.
        bias: Initializer that it adds, ``""`` if it has none.
        output: Value that it makes.
        axis: Axis of the weight along which its output channels lie.
        macs: Multiply-accumulates for one element of the batch; 0 where a shape is not known.
        after_gelu: Whether its input is a GELU's output, maybe reshaped or scaled.
    """

    node: str
    op: str
    module: str
    input: str
    weight: str
    bias: str
    output: str
    axis: int
    macs: int
    after_gelu: bool

    @property
    def name(self) -> str:
        """What reports call it: its module, else its node."""
        return self.module or self.node


@dataclass
class Network:
    """A float network whose every node has a name, whose GELUs are one node each; ``model`` is hollow.

    Attributes:
        model: The graph, opset 20 or later.
        held: Its large weights.
        layers: What may be quantized, in the order of the graph.
        notes: What was done to it, one line each.
    """

    model: ir.Model
    held: hollow.Held
    layers: tuple[Layer, ...]
    notes: list[str] = field(default_factory=list[str])

    def array(self, name: str) -> Array:
        """The initializer ``name``, held or not."""
        value = self.held.weights.get(name) or self.model.graph.initializers[name]
        assert value.const_value is not None
        return np.asarray(value.const_value.numpy())

    def showing(self, values: Iterable[str], *, optimise: bool = False) -> runtime.Evaluation:
        """The float network, ready to run, with its outputs and these inner values."""
        copy = self.model.clone()
        own = {value.name for value in copy.graph.outputs}
        made = {value.name: value for node in copy.graph for value in node.outputs}
        made |= {value.name: value for value in copy.graph.inputs}
        for name in dict.fromkeys(values):
            if name in own:
                continue
            value = made[name]
            if value.producer() is None:  # an input of the graph is no output of it
                shown = ir.val(f"{name}.shown", type=value.type, shape=value.shape)
                copy.graph.append(ir.node("Identity", [value], outputs=[shown], name=f"{name}.shown"))
                value = shown
            copy.graph.outputs.append(value)
        return runtime.Evaluation(copy, hollow.arrays(self.held), optimise=optimise)

    def whole(self) -> ir.Model:
        """A copy with its weights in place."""
        copy = self.model.clone()
        hollow.put_back(copy, self.held)
        return copy


@dataclass(frozen=True)
class Recipe:
    """Every decision about a static INT8 model.

    Attributes:
        ranges: Range of every layer's input, by value name.
        activation: Type of activations: ``u8`` on x86, ``s8`` on Arm; always asymmetric.
        weight: Type of weights, per channel and symmetric (``u8``: the same numbers, about 128).
        kept: Nodes of layers that stay in float.
        unsigned: Nodes of layers whose weights are ``u8`` whatever the others are: of such, pairs of products are never
            added in 16 bits.
    """

    ranges: Mapping[str, Range]
    activation: Integer = "u8"
    weight: Integer = "s8"
    kept: frozenset[str] = frozenset()
    unsigned: frozenset[str] = frozenset()

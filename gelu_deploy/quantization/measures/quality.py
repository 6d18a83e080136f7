"""What 8 bits cost each layer: alone, within the integer model, and on the negative side of a GELU.

Signal over noise against the float network, over any number of batches. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.quantization.measures.sidebyside import Seen, quantized, quantizer, side_by_side
from gelu_deploy.quantization.network import Layer, Network
from gelu_deploy.scoring.metrics import Energy


@dataclass(frozen=True)
class LayerQuality:
    """One quantized layer.

    Attributes:
        module: PyTorch module that it comes from, else its node.
        node: Its node.
        op: ``Conv``, ``Gemm`` or ``MatMul``.
        alone: SQNR in dB of its output when it alone is quantized: its own kernel, on the float network's values.
        accumulated: The same within the integer model, with the noise of all layers before it.
        codes_below_zero: How many of the 256 codes of its input stand for numbers below zero, where that is a GELU's
            output with a fixed range; else None.
        lobe: SQNR in dB of the elements of that output which are below zero, through those codes; inf where none is.
    """

    module: str
    node: str
    op: str
    alone: float
    accumulated: float
    codes_below_zero: int | None
    lobe: float | None


@dataclass(frozen=True)
class Codes:
    """The 8-bit codes of one value: ``number = (code - zero) * scale``."""

    scale: Array
    zero: Array

    @classmethod
    def of(cls, layer: Layer, model: ir.Model) -> Codes | None:
        """Of what ``layer`` reads in ``model``; None where its range is not fixed there."""
        node = quantizer(layer, model)
        constants = [value.const_value for value in node.inputs[1:3] if value is not None] if node else []
        scale, zero = [*constants, None, None][:2]
        return cls(scale.numpy(), zero.numpy()) if scale is not None and zero is not None else None

    @property
    def below_zero(self) -> int:
        """How many codes stand for numbers below zero."""
        return int(self.zero) - int(np.iinfo(self.zero.dtype).min)

    def through(self, array: Array) -> Array:
        """What is left of ``array`` after rounding it to these codes, of its own type."""
        limits, zero = np.iinfo(self.zero.dtype), float(self.zero)
        codes = np.clip(np.rint(array / self.scale) + zero, limits.min, limits.max)
        return ((codes - zero) * self.scale).astype(array.dtype)


@dataclass
class _Sums:
    """What is added up of one layer, batch by batch."""

    codes: Codes | None
    alone: Energy = field(default_factory=Energy)
    within: Energy = field(default_factory=Energy)
    lobe: Energy = field(default_factory=Energy)

    def add(self, seen: Seen) -> None:
        self.alone.add(seen.wanted, seen.alone)
        self.within.add(seen.wanted, seen.within)
        if self.codes is not None:
            below = seen.input[seen.input < 0]
            self.lobe.add(below, self.codes.through(below))


def report(network: Network, model: ir.Model, data: Iterable[Arrays]) -> list[LayerQuality]:
    """One row for each quantized layer, in the order of the graph.

    Args:
        network: The float network.
        model: The integer model that was made of it, whole.
        data: Held-out data, read once; a batch at a time is in memory, with what all layers read and make of it.

    Raises:
        UsageError: The data do not fit the network's inputs.
    """
    layers = quantized(network, model)
    sums = {layer.node: _Sums(Codes.of(layer, model) if layer.after_gelu else None) for layer in layers}
    for batch in side_by_side(network, model, data, layers):
        for seen in batch:
            sums[seen.layer.node].add(seen)
    return [_row(layer, sums[layer.node]) for layer in layers]


def _row(layer: Layer, sums: _Sums) -> LayerQuality:
    return LayerQuality(
        module=layer.name,
        node=layer.node,
        op=layer.op,
        alone=sums.alone.db,
        accumulated=sums.within.db,
        codes_below_zero=sums.codes.below_zero if sums.codes else None,
        lobe=sums.lobe.db if sums.codes else None,
    )

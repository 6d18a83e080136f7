"""What every GELU and ReLU puts out, drawn, beside the 8-bit codes that an INT8 file has for it.

It counts with ``flow`` and judges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from gelu_deploy.data import Batch
from gelu_deploy.flow import Point, Survey, Tally, points
from gelu_deploy.graph import hollow
from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.graph.gemm import FLAT
from gelu_deploy.graph.opening import open_graph
from gelu_deploy.quantization.measures.quality import Codes
from gelu_deploy.quantization.network.layers import CARRIERS
from gelu_deploy.results import GridResult, Histogram, SiteHistogram
from gelu_deploy.scoring.metrics import Energy

BINS, LOBE = 64, 40
"""Of a whole output, and of its part below zero."""
PARTS = 8
"""Into which a bin of the counting is divided where the rounding of its numbers is worked out."""


def histograms(family: str, model: Path, integer: Path | None, data: Iterable[Batch]) -> list[SiteHistogram]:
    """One for each GELU and ReLU of the main graph, in its order; functions and bodies are out of reach.

    Numbers are those of the activation itself: a constant that the graph multiplies it by is divided out, of the codes
    too. Edges of bins are exact, counts are to within 0.4 % of where a number lies.

    A grid is that of the fixed range with which the file reads the output, maybe reshaped or times a number. There is
    none where the output stays float, where its range is per channel or found at run time, where an outlier guard
    scales its channels differently, or where two readers have different ones; ``codes_below_zero`` is 0 and
    ``lobe_sqnr`` NaN then. Channels that the guard multiplies in float, beside the layer, have the grid of the others.

    Args:
        family: What the results say it is.
        model: The float file.
        integer: What was quantized from it, by us or by a tool that keeps the names of values; None if nothing was.
        data: Read once, a batch at a time; memory is that of all inputs and outputs of the sites for one batch.

    Returns:
        Histograms without bins where there is nothing to count, and so for the lobe of a ReLU, whose SQNR is inf.

    Raises:
        ModelError: A file is no ONNX model, or the runtime refuses the float one.
        UsageError: The data do not fit the inputs.
    """
    opened = open_graph(str(model))
    places, _ = points(opened.model)
    if not places:
        return []
    codes = [None] * len(places) if integer is None else _codes(places, open_graph(str(integer)).model)
    with Survey(opened.model, hollow.arrays(opened.held), places) as run:
        for batch in data:
            run.add(batch.inputs)
        return [_site(family, *pair) for pair in zip(run.tallies, codes, strict=True)]


class _Spread:
    """Numbers known by the bins that they were counted in, spread evenly within each."""

    def __init__(self, begins: NDArray[np.float64], ends: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
        self.begins, self.ends, self.counts = begins, ends, counts

    def below_zero(self) -> _Spread:
        """Only those."""
        below = self.begins < 0
        return _Spread(self.begins[below], self.ends[below], self.counts[below])

    def histogram(self, low: float, high: float, bins: int) -> Histogram:
        """All of them, in bins of equal width from the lowest to the highest; no bins where there are none."""
        if not self.counts.size:
            return Histogram(edges=[0.0], counts=[])
        edges = np.histogram_bin_edges([low, high], bins)
        through = np.cumsum(self.counts)
        at = np.stack([self.begins, self.ends], axis=1).ravel()
        below = np.interp(edges, at, np.stack([through - self.counts, through], axis=1).ravel())
        below[0], below[-1] = 0, through[-1]
        return Histogram(edges=edges.tolist(), counts=np.diff(np.rint(below)).astype(np.int64).tolist())

    def sqnr(self, codes: Codes) -> float:
        """Of what the codes leave of them, in dB; inf where there are none."""
        inner = (np.arange(PARTS) + 0.5) / PARTS
        numbers = self.begins[:, None] + (self.ends - self.begins)[:, None] * inner
        weights = np.broadcast_to(self.counts[:, None] / PARTS, numbers.shape)
        away = codes.through(numbers) - numbers
        return Energy(float(np.vdot(weights, numbers**2)), float(np.vdot(weights, away**2))).db


def _site(family: str, tally: Tally, codes: Codes | None) -> SiteHistogram:
    place, row, outputs = tally.place, tally.row(), _Spread(*tally.outputs.spans())
    lobe, (low, high) = outputs.below_zero(), (float(tally.low[1]), float(tally.high[1]))
    return SiteHistogram(
        family=family,
        module=place.module or place.output,
        activation=place.activation,
        output=outputs.histogram(low, high, BINS),
        lobe=lobe.histogram(low, 0.0, LOBE),
        grid=None if codes is None else _grid(codes),
        codes_below_zero=0 if codes is None else codes.below_zero,
        lobe_sqnr=math.nan if codes is None else lobe.sqnr(codes),
        effective=row["effective"],
        negative=row["negative"],
    )


def _grid(codes: Codes) -> GridResult:
    limits = np.iinfo(codes.zero.dtype)
    return GridResult(scale=float(codes.scale), zero=int(codes.zero), lowest=int(limits.min), highest=int(limits.max))


def _codes(places: Sequence[Point], model: ir.Model) -> list[Codes | None]:
    """Those with which ``model`` reads the output of each point of the float graph."""
    values = {value.name or "": value for node in model.graph for value in node.outputs}
    scales = {point.output: point.scale for point in points(model)[0]}
    found = list[Codes | None]()
    for place in places:
        value = values.get(f"{place.output}{FLAT}") or values.get(place.output)
        scale = place.scale if value is None else scales.get(value.name or "", place.scale)
        found.append(None if value is None else _common([_fixed(*reader) for reader in _readers(value, scale)]))
    return found


def _common(readers: Sequence[Codes | None]) -> Codes | None:
    """The codes that all of them have; None where they are not one grid."""
    grids = [None if codes is None else _grid(codes) for codes in readers]
    return readers[0] if readers and grids.count(grids[0]) == len(grids) else None


def _readers(value: ir.Value, factor: float) -> Iterator[tuple[ir.Node, float]]:
    """Every QuantizeLinear of ``value``, and what ``factor`` is there: times the constants on the way."""
    for node, index in value.uses():
        if node.op_type == "QuantizeLinear" and index == 0:
            yield node, factor
        elif node.op_type == "Mul":
            times = _times(node.inputs[1 - index])
            yield from () if times is None else _readers(node.outputs[0], factor * times)
        elif node.op_type in CARRIERS and index == 0:
            for output in node.outputs:
                yield from _readers(output, factor)


def _times(value: ir.Value | None) -> float | None:
    """A constant factor: NaN where channels have different ones, but for those with 0; None if it is computed."""
    tensor = None if value is None else tensor_of(value)
    if tensor is None:
        return None
    numbers = np.unique(tensor.numpy())
    others = numbers[numbers != 0]
    return float(others[0]) if others.size == 1 else math.nan


def _fixed(quantizer: ir.Node, factor: float) -> Codes | None:
    """Its codes, for what ``factor`` was multiplied by; None where they are not fixed, or not whole numbers."""
    scale, zero = (None if value is None else tensor_of(value) for value in [*quantizer.inputs[1:], None, None][:2])
    if scale is None or zero is None or scale.size != 1 or zero.size != 1 or not factor > 0:
        return None
    whole = zero.numpy().reshape(())
    return Codes(scale.numpy().reshape(()) / np.float64(factor), whole) if whole.dtype.kind in "iu" else None

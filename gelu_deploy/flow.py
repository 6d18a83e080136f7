"""What flows through every GELU and ReLU of a graph: ranges, quantiles, how much of it acts, what 8 bits would leave.

Streaming: the memory is that of one batch and of two histograms a site, and batches of any size give the same answer.
It reports and judges nothing, and knows neither files nor PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from gelu_deploy import gelu, runtime
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.graph.recognize import Site, find
from gelu_deploy.graph.scopes import module_of
from gelu_deploy.graph.taps import tapped
from gelu_deploy.results import SurveyedSite
from gelu_deploy.runtime.feeds import Spec

EFFECT = 0.01
"""An output acts if its magnitude is above this; a slope lets a gradient through if its is."""
QUANTILES = (0.001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999)
RELU = "relu"
CHANNELS_FIRST = {"Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization", "GroupNormalization"}
THROUGH = {"Add", "Sub", "Mul", "Div", "Cast", "Identity"}
"""Operators that leave the channels where they are."""
BINS = 1 << 16


@dataclass(frozen=True)
class Point:
    """One place to look at: ``output = scale · activation(input [+ bias])``.

    Attributes:
        activation: Form of a GELU, or ``relu``.
        axis: Along which its channels lie.
    """

    module: str
    activation: str
    input: str
    output: str
    bias: str
    alpha: float | None
    scale: float
    axis: int


def points(model: ir.Model) -> tuple[list[Point], int]:
    """Every GELU and ReLU of the main graph in its order, and how many GELUs are out of reach in others."""
    sites = {site.output.name: _of_site(site) for site in find(model).sites}
    relus = {node.outputs[0].name: _of_relu(node) for node in model.graph if _is_relu(node)}
    named = sites | relus
    order = [value.name for node in model.graph for value in node.outputs]
    found = [named.pop(name) for name in order if name in named]
    return found, len(named)


class Survey:
    """A hollow graph that is run batch by batch while the values at its points are counted.

    Args:
        model: The graph; it is not changed.
        weights: What is held out of it.
        places: Points of its main graph.
        provider: As for :class:`gelu_deploy.runtime.Session`; the attribute has the one that was chosen.

    Attributes:
        tallies: What has been counted so far, a point each.

    Raises:
        SetupError: The provider cannot be had.
        ModelError: The runtime refuses the model.
    """

    def __init__(
        self, model: ir.Model, weights: Mapping[str, Array], places: list[Point], provider: str = "cpu"
    ) -> None:
        names = (name for place in places for name in (place.input, place.output, place.bias) if name)
        copy, self._shown = tapped(model, names)
        self._run = runtime.Evaluation(copy, weights, optimise=True, provider=provider)
        self.provider = self._run.provider
        self.tallies = [Tally(place) for place in places]

    @property
    def inputs(self) -> Mapping[str, Spec]:
        """What a batch must have."""
        return self._run.inputs

    def add(self, feeds: Arrays) -> None:
        """One batch. Raises UsageError where it does not fit, ModelError where the model fails on it."""
        values = self._run(feeds)
        for tally in self.tallies:
            place = tally.place
            x, y = (-values[self._shown[name]] for name in (place.input, place.output))
            if place.bias:
                x = x - values[self._shown[place.bias]]
            tally.add(x, y)

    def sites(self) -> list[SurveyedSite]:
        """What has been seen so far, in the order of the graph; NaN where nothing has."""
        return [tally.row() for tally in self.tallies]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()


class Values:
    """Numbers counted by the 16 leading bits of their float32: every magnitude to within 0.4 %, in any order."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)

    def add(self, values: NDArray[np.float32]) -> None:
        """Finite numbers, of any shape."""
        self.counts += np.bincount((np.ascontiguousarray(values).view(np.uint32) >> 16).ravel(), minlength=BINS)

    def spans(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """By value, where each bin that holds anything begins and ends, and how much; −0.0 counts as 0."""
        counts = self.counts.copy()
        counts[0], counts[BINS // 2] = counts[0] + counts[BINS // 2], 0
        held = _order()[counts[_order()] > 0]
        bits = held.astype(np.uint32) << 16
        ends = np.sort(np.stack([bits, bits | 0xFFFF]).view(np.float32).astype(np.float64), axis=0)
        return ends[0], ends[1], counts[held]

    def quantiles(self, shares: tuple[float, ...]) -> list[float]:
        """The smallest numbers that so many are not above; NaN if there are none."""
        return _ranked(self.counts[_order()], _centres()[_order()], shares)

    def magnitude(self, share: float) -> float:
        """The same of their magnitudes."""
        half = BINS // 2
        return _ranked(self.counts[:half] + self.counts[half:], _centres()[:half], (share,))[0]


class Tally:
    """Everything that is counted at one point."""

    def __init__(self, place: Point) -> None:
        self.place = place
        self.inputs, self.outputs = Values(), Values()
        self.low, self.high = np.full(2, np.inf), np.full(2, -np.inf)
        self.sums = np.zeros(3)
        self.count = self.strange = self.acting = self.negative = 0
        self.loudest, self.bent = np.zeros(0), np.zeros(0)

    def add(self, x: Array, y: Array) -> None:
        """One batch of its inputs and outputs, of one shape and any float type."""
        x, y = np.broadcast_arrays(x.astype(np.float32), y.astype(np.float32) / np.float32(self.place.scale))
        finite = np.isfinite(x) & np.isfinite(y)
        self.strange += finite.size - int(np.count_nonzero(finite))
        self._channels(np.where(finite, y, 0), np.subtract(y, x, where=finite, out=np.zeros_like(y)))
        x, y = x[finite], y[finite]
        if not x.size:
            return
        self.count += x.size
        self.low = np.minimum(self.low, [x.min(), y.min()])
        self.high = np.maximum(self.high, [x.max(), y.max()])
        self.sums += [x.sum(dtype=np.float64), *(np.square(one, dtype=np.float64).sum() for one in (x, y))]
        self.acting += int(np.count_nonzero(np.abs(y) > EFFECT))
        self.negative += int(np.count_nonzero(y < 0))
        self.inputs.add(x)
        self.outputs.add(y)

    def _channels(self, y: Array, away: Array) -> None:
        """Largest output of each channel, and how far it ever was from its input."""
        for name, values in (("loudest", y), ("bent", away)):
            axis = self.place.axis if y.ndim > 1 else -1
            wide = np.moveaxis(np.atleast_1d(np.abs(values)), axis, -1)
            now, before = wide.reshape(-1, wide.shape[-1]).max(axis=0, initial=0), getattr(self, name)
            size = max(len(now), len(before))
            setattr(self, name, np.maximum(*(np.pad(one, (0, size - len(one))) for one in (now, before))))

    def row(self) -> SurveyedSite:
        """All of it as numbers."""
        count = self.count or np.nan
        (mean, square, answer), (lowest, highest) = self.sums / count, (self.low[1], self.high[1])
        dead = self.loudest <= EFFECT
        usual, most = self.outputs.magnitude(0.999), max(-lowest, highest)
        return SurveyedSite(
            module=self.place.module,
            activation=self.place.activation,
            input=self.place.input,
            output=self.place.output,
            values=self.count,
            not_finite=self.strange,
            minimum=float(self.low[0]),
            maximum=float(self.high[0]),
            mean=float(mean),
            std=float(np.sqrt(max(0.0, square - mean**2))),
            quantiles={f"{q:g}": v for q, v in zip(QUANTILES, self.inputs.quantiles(QUANTILES), strict=True)},
            output_minimum=float(lowest),
            output_maximum=float(highest),
            gain=float(np.sqrt(square / answer)) if answer else float("nan"),
            effective=float(self.acting / count),
            negative=float(self.negative / count),
            vanishing=self._vanishing(),
            outlier_ratio=float(most / usual) if usual else float("nan"),
            codes_below_zero=_codes_below_zero(float(lowest), float(highest)),
            channels=len(self.loudest),
            dead=int(np.count_nonzero(dead)),
            saturated=int(np.count_nonzero(~dead & (self.bent <= EFFECT))),
        )

    def _vanishing(self) -> float:
        """Share of the inputs at which the slope lets next to no gradient through."""
        held = np.flatnonzero(self.inputs.counts)
        counts, at = self.inputs.counts[held], _centres()[held]
        if not held.size:
            return float("nan")
        return float(counts[np.abs(self._slope(at)) < EFFECT].sum() / counts.sum())

    def _slope(self, at: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.place.activation == RELU:
            return np.asarray(at > 0, np.float64)
        form = gelu.FORMS[self.place.activation]
        alpha = {} if self.place.alpha is None else {"alpha": self.place.alpha}
        return np.asarray(form.gradient(at, **alpha))


def _of_site(site: Site) -> Point:
    bias = site.bias.name or "" if site.bias is not None else ""
    names = site.source.name or "", site.output.name or ""
    return Point(site.module, site.form, *names, bias, site.alpha, site.scale, _axis(site.source))


def _of_relu(node: ir.Node) -> Point:
    source = node.inputs[0]
    assert source is not None
    return Point(module_of(node), RELU, source.name or "", node.outputs[0].name or "", "", None, 1.0, _axis(source))


def _is_relu(node: ir.Node) -> bool:
    return node.op_type == "Relu" and node.domain in {"", "ai.onnx"}


def _axis(value: ir.Value) -> int:
    """Axis of the channels: the second behind a convolution, else the last."""
    node = value.producer()
    while node is not None and node.op_type in THROUGH:
        makers = [one.producer() for one in node.inputs if one is not None]
        node = next((one for one in makers if one is not None and one.op_type != "Constant"), None)
    return 1 if node is not None and node.op_type in CHANNELS_FIRST else -1


def _codes_below_zero(lowest: float, highest: float) -> int:
    """Of the 256 codes of an asymmetric range that holds 0: those for negative numbers."""
    low, high = min(lowest, 0.0), max(highest, 0.0)
    return round(-low * 255 / (high - low)) if np.isfinite(high - low) and high > low else 0


def _ranked(counts: NDArray[np.int64], values: NDArray[np.float64], shares: tuple[float, ...]) -> list[float]:
    below = np.cumsum(counts)
    if not below[-1]:
        return [float("nan")] * len(shares)
    ranks = np.maximum(1, np.ceil(np.asarray(shares) * below[-1]))
    return [float(values[place]) for place in np.searchsorted(below, ranks)]


@cache
def _centres() -> NDArray[np.float64]:
    """The middle of each bin by its 16 bits; 0 for the two that hold it."""
    codes = np.arange(BINS, dtype=np.uint32) << 16
    with np.errstate(invalid="ignore"):  # some of them are NaN
        middles = (codes | 0x8000).view(np.float32).astype(np.float64)
    middles[[0, BINS // 2]] = 0
    return middles


@cache
def _order() -> NDArray[np.int64]:
    """The bins by value: the negative ones, largest magnitude first, then the positive ones."""
    return np.concatenate([np.arange(BINS - 1, BINS // 2 - 1, -1), np.arange(BINS // 2)])

"""What flows through inner values of a float network: one pass over the data, a batch in memory at a time.

It knows neither methods nor quantization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.errors import ModelError
from gelu_deploy.quantization.calibration.histogram import Histogram
from gelu_deploy.quantization.network import Network


@dataclass(frozen=True)
class Observation:
    """What was seen of one value, over all batches.

    Attributes:
        minimum: Smallest element.
        maximum: Largest element.
        total: Sum of all elements.
        count: How many there were.
        histogram: How often each occurred.
        channels: Largest magnitude in each channel, float32; along axis 1 for what a Conv reads, else along the last.
            Empty where the number of channels differs between batches.
    """

    minimum: float
    maximum: float
    total: float
    count: int
    histogram: Histogram
    channels: Array

    @classmethod
    def of(cls, array: Array, axis: int = -1) -> Observation:
        """Of one array of finite floating-point numbers, at least one; ``axis`` is that of its channels."""
        others = tuple(other for other in range(array.ndim) if other != axis % array.ndim)
        channels = np.maximum(array.max(others), -array.min(others)).astype(np.float32).reshape(-1)
        return cls(
            minimum=float(array.min()),
            maximum=float(array.max()),
            total=float(array.sum(dtype=np.float64)),
            count=array.size,
            histogram=Histogram.of(array),
            channels=channels,
        )

    def merged(self, other: Observation) -> Observation:
        """Both together."""
        alike = self.channels.size == other.channels.size
        return Observation(
            minimum=min(self.minimum, other.minimum),
            maximum=max(self.maximum, other.maximum),
            total=self.total + other.total,
            count=self.count + other.count,
            histogram=self.histogram.merged(other.histogram),
            channels=np.maximum(self.channels, other.channels) if alike else np.empty(0, np.float32),
        )

    def above(self, floor: float) -> Observation:
        """The same with everything below ``floor`` counted as ``floor``; total and channels are left as they are."""
        if self.minimum >= floor:
            return self
        return replace(self, minimum=floor, maximum=max(self.maximum, floor), histogram=self.histogram.above(floor))

    @property
    def mean(self) -> float:
        """The mean of all elements."""
        return self.total / self.count

    def quantile(self, share: float) -> float:
        """The magnitude below which this share of all elements lies, at most the largest there was."""
        return min(self.histogram.magnitudes().quantile(share), max(-self.minimum, self.maximum))


class Keeping(Protocol):
    """Where a calibration is kept, so that it goes on where it stopped."""

    def load(self) -> tuple[int, dict[str, Observation], bool]:
        """Batches seen so far, what was seen, and whether that is all."""
        ...

    def save(self, seen: int, found: Mapping[str, Observation], *, complete: bool) -> None:
        """Keep this in place of what was kept."""
        ...


def observe(
    network: Network, values: Sequence[str], data: Iterable[Arrays], *, keeping: Keeping | None = None
) -> dict[str, Observation]:
    """Run the float network on every batch and count what flows through ``values``.

    Memory is that of one batch and a few kilobytes for each value. Batches may have any sizes; empty ones and values of
    no elements are passed over.

    Args:
        network: The float network.
        values: Inputs or inner values of its graph, of floating-point types.
        data: Arrays for its inputs.
        keeping: Where to find what an earlier, interrupted call saw of the same batches, and to keep this one's.

    Returns:
        What was seen, by value; a value that never had an element is missing.

    Raises:
        ModelError: A value is not finite: the message names who reads it. The network fails on the data.
        UsageError: The data do not fit its inputs.
    """
    seen, found, complete = keeping.load() if keeping else (0, {}, False)
    if complete:
        return found
    convolved = {layer.input for layer in network.layers if layer.op == "Conv"}
    axes = {name: 1 if name in convolved else -1 for name in values}
    inputs = {value.name for value in network.model.graph.inputs}
    with network.showing([name for name in values if name not in inputs], optimise=True) as run:
        for seen, feeds in enumerate(islice(data, seen, None), seen + 1):  # noqa: B020, it goes on from there
            for name, now in _seen(network, axes, feeds, run(feeds), seen):
                found[name] = found[name].merged(now) if name in found else now
            if keeping:
                keeping.save(seen, found, complete=False)
    if keeping:
        keeping.save(seen, found, complete=True)
    return found


def _seen(
    network: Network, axes: Mapping[str, int], feeds: Arrays, made: Arrays, batch: int
) -> Iterator[tuple[str, Observation]]:
    """What one run shows of each value, an array let go once it is counted."""
    for name, axis in axes.items():
        array = made.pop(name) if name in made else feeds[name]
        if array.size:
            _refuse_infinite(network, name, array, batch, feeds)
            yield name, Observation.of(array, axis)


def _refuse_infinite(network: Network, name: str, array: Array, batch: int, feeds: Mapping[str, Array]) -> None:
    if np.isfinite(array.min()) and np.isfinite(array.max()):  # NaN passes through both
        return
    wrong = int(array.size - np.isfinite(array).sum())
    readers = ", ".join(layer.name for layer in network.layers if layer.input == name) or f"value {name!r}"
    given = [one for one, fed in feeds.items() if fed.dtype.kind == "f" and not np.isfinite(fed).all()]
    cause, advice = "The data are finite", "Replace infinite masks by a large finite number, or --exclude this layer."
    if given:
        cause, advice = f"The data hold some, in {', '.join(map(repr, given))}", "Take them out of the data."
    raise ModelError(
        f"{readers} reads {wrong} of {array.size} elements that are infinite or no numbers, in batch {batch}. {cause}; "
        f"no 8-bit range holds them. {advice}"
    )

"""Who is compared, and on what: the networks, all their variants, and the data.

It makes and measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gelu_deploy.comparison.candidates import Candidate, Ends, Run, renaming, under
from gelu_deploy.data import Batch, Dataset, open_data
from gelu_deploy.options import CompareOptions


@dataclass(frozen=True)
class Data:
    """What all are judged on, and what INT8 ranges are measured on.

    Attributes:
        judged: Under the names of the model's float file, as the other.
        calibration: Nothing is judged on it where there is enough.
        said: What it is, for a reader.
    """

    judged: Dataset
    calibration: Dataset
    said: str

    @classmethod
    def opened(cls, options: CompareOptions, ends: Ends) -> Data:
        """``--calib-data``, else every fourth batch of ``--data``, is what ranges are measured on.

        Raises:
            UsageError: There are no such data; while they are read: they do not fit the inputs.
        """
        data = open_data(options.data, ends.inputs, batch=options.batch)
        if options.calib_data is not None:
            other = open_data(options.calib_data, ends.inputs, batch=options.batch)
            return cls(data, other, other.name)
        rest, quarter = data.split()
        rest.name = quarter.name = data.name
        if rest is quarter:
            return cls(rest, quarter, f"{data.name}, on which all are judged, too")
        return cls(
            rest, quarter, f"a quarter of {data.name}, on which nothing is judged (--calib-data names other data)"
        )

    @property
    def notes(self) -> list[str]:
        """What there was to say of both, once they have been read."""
        return list(dict.fromkeys([*self.judged.notes, *self.calibration.notes]))

    @cached_property
    def first(self) -> Batch:
        """The first batch. Raises UsageError where there is none."""
        return next(iter(self.judged))

    def rows(self, count: int) -> Batch:
        """The first rows, or as many as the network must have."""
        return self.first.take(slice(0, count)) if self.judged.divisible else self.first


@dataclass(frozen=True)
class Network:
    """The model or its twin.

    Attributes:
        family: Which of the two.
        line: What was given, for a reader.
        file: Its float file among the variants.
        ends: Of that file.
        original: PyTorch's own; None for an ONNX file.
    """

    family: str
    line: str
    file: Candidate
    ends: Ends
    original: Run | None = None


@dataclass(frozen=True)
class Cast:
    """All of it.

    Attributes:
        networks: The model, and its twin if there is one.
        candidates: Every variant, in the order of the table.
        ends: Of the model's float file; all are run under its names.
        data: What it is run on.
        notes: What there is to say.
    """

    networks: tuple[Network, ...]
    candidates: tuple[Candidate, ...]
    ends: Ends
    data: Data
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> Network:
        """The one whose variants may ship."""
        return self.networks[0]

    @property
    def twin(self) -> Network | None:
        """The same with another activation."""
        return self.networks[1] if len(self.networks) > 1 else None

    @property
    def originals(self) -> Mapping[str, Run]:
        """PyTorch's own networks by family, under the names of the model's float file."""
        return {
            one.family: renaming(one.original, one.file.names, self.ends)
            for one in self.networks
            if one.original is not None
        }

    def integer(self, network: Network) -> Candidate | None:
        """The first that was quantized from a network's float file."""
        made = (one for one in self.candidates if one.source == network.file.name and one.made is not None)
        return next(made, None)

    def judged(self, one: Candidate) -> Dataset:
        """The judged data under the names that a file has for its inputs."""
        return under(self.data.judged, one.names)

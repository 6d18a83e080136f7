"""What is compared: every variant of a model, where its file lies, how it is run and how it is timed.

All are run under the names of the model's own float file, whatever theirs are. It makes no file and judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from gelu_deploy import artifact, runtime
from gelu_deploy.arrays import Arrays
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.errors import UsageError
from gelu_deploy.flow import points
from gelu_deploy.graph.opening import open_graph, read
from gelu_deploy.graph.recognize import find
from gelu_deploy.quantization.measures.coverage import quantized
from gelu_deploy.results import QuantizeResult
from gelu_deploy.runtime.feeds import Spec
from gelu_deploy.timing.interleaved import Variant

Run = Callable[[Arrays], Arrays]

MODEL, TWIN, ALSO = "model", "twin", "also"
"""Families."""
PYTORCH, FLOAT = "pytorch", "float"
"""Precisions besides those of ``quantize``."""
DYNAMIC = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "ConvInteger"}
"""Operators of a file whose activations are measured in each run."""


@dataclass(frozen=True)
class Ends:
    """Inputs and outputs of a file."""

    inputs: Mapping[str, Spec]
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, provider: str) -> Self:
        """Those of an ONNX file. Raises ModelError, SetupError as :class:`runtime.Session` does."""
        with runtime.Session(path, provider) as session:
            return cls(session.inputs, tuple(session.outputs))

    def names_in(self, other: Ends, who: str) -> dict[str, str]:
        """The name that each of these inputs has in another file: the same, or that of the only one.

        Raises:
            UsageError: Inputs differ in names, types or fixed sizes, or outputs in number.
        """
        single = len(self.inputs) == len(other.inputs) == 1
        names = dict(zip(self.inputs, other.inputs if single else self.inputs, strict=True))
        same = single or self.inputs.keys() == other.inputs.keys()
        if not (same and len(self.outputs) == len(other.outputs)) or not all(
            _agree(spec, other.inputs[names[name]]) for name, spec in self.inputs.items()
        ):
            raise UsageError(
                f"{who} takes {other}; the model takes {self}. Only files with the same ends are compared."
            )
        return names

    def __str__(self) -> str:
        """``x batch x 1 x 8 x 8:float32, and gives 1 output``."""
        taken = ", ".join(f"{name} {spec}" for name, spec in self.inputs.items())
        return f"{taken}, and gives {len(self.outputs)} output{'s' * (len(self.outputs) != 1)}"


@dataclass(frozen=True)
class Candidate:
    """One variant.

    Attributes:
        name: Unique, as in the table.
        family: ``model``, ``twin`` or ``also``.
        form: Of its GELUs.
        precision: ``pytorch``, ``float`` or that of ``quantize``.
        source: Name of the float one that it was made of; ``""`` for what was made of none.
        against: Name of the one that its answers are held against; ``""`` for none.
        file: Where a person finds it; ``""`` for what is no file, or could not be made.
        path: Where it lies while it is compared; None if that is no ONNX file.
        names: Names of its inputs by those of the model.
        original: PyTorch itself.
        process: PyTorch in a process of its own; None where it cannot be.
        made: What ``quantize`` said of it.
        failure: Why it could not be made.
        notes: What there is to say of it.
    """

    name: str
    family: str
    form: str
    precision: str
    source: str = ""
    against: str = ""
    file: str = ""
    path: Path | None = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    original: Run | None = None
    process: Variant | None = None
    made: QuantizeResult | None = None
    failure: str = ""
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether there is something to run."""
        return self.path is not None or self.original is not None

    @property
    def may_ship(self) -> bool:
        """Whether budgets are held against it: what is quantized and is not the twin's."""
        return self.family != TWIN and self.precision not in {PYTORCH, FLOAT}

    def timed(self, provider: str) -> Variant | None:
        """It as a variant to be timed, with the settings that are stored in its file; None where it cannot be."""
        if self.path is None:
            return self.process
        plain = Variant.session(self.name, self.path, runtime.stored(self.path), provider)
        if all(ours == theirs for ours, theirs in self.names.items()):
            return plain
        arguments = {"names": dict(self.names), **plain.arguments}
        return Variant(self.name, "gelu_deploy.runtime.opener:renamed", arguments, plain.imports)

    @contextmanager
    def opened(self, ends: Ends, provider: str) -> Generator[Run]:
        """It, ready to run under the names of these ends; its threads rest while the others run.

        Raises ModelError, SetupError as :class:`runtime.Session` does.
        """
        if self.path is None:
            assert self.original is not None
            yield renaming(self.original, self.names, ends)
            return
        settings = replace(runtime.stored(self.path), spinning=False)
        with runtime.Session(self.path, provider, settings=settings) as session:
            yield renaming(session, self.names, ends)


def renaming(run: Run, names: Mapping[str, str], ends: Ends) -> Run:
    """The same run with inputs and outputs under the names of these ends, where it has others."""

    def call(feeds: Arrays) -> Arrays:
        answers = run({names.get(name, name): array for name, array in feeds.items()})
        same = answers.keys() == set(ends.outputs)
        return answers if same else dict(zip(ends.outputs, answers.values(), strict=True))

    return call


def under(data: Dataset, names: Mapping[str, str]) -> Dataset:
    """Data under the names that another file has for its inputs."""

    def read() -> Generator[Batch]:
        for batch in data:
            yield Batch({names.get(name, name): array for name, array in batch.inputs.items()}, batch.labels)

    return Dataset(data.name, read, divisible=data.divisible, batches=data.batches, notes=data.notes)


def form_of(path: Path) -> str:
    """The forms of a file's GELUs, and ``relu`` if it has any, joined by commas; ``""`` for neither."""
    graph = open_graph(str(path)).model
    found = {site.form for site in find(graph).sites} | {place.activation for place in points(graph)[0]}
    return ", ".join(sorted(found))


def precision_of(path: Path) -> str:
    """What a file was quantized to: as one of ours says itself, else by its operators."""
    said = artifact.metadata(path).get("quantization", {}).get("options", {})
    if "precision" in said:
        return str(said["precision"])
    operators = quantized(read(str(path)))
    if not operators:
        return FLOAT
    if "MatMulNBits" in operators:
        return "w8"
    return "dynamic-int8" if operators & DYNAMIC else "int8"


def _agree(spec: Spec, other: Spec) -> bool:
    sizes = zip(spec.shape, other.shape, strict=False)
    fixed = [(a, b) for a, b in sizes if isinstance(a, int) and isinstance(b, int)]
    return spec.dtype == other.dtype and len(spec.shape) == len(other.shape) and all(a == b for a, b in fixed)

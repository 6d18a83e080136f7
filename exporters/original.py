"""A PyTorch network before export: its inputs, its outputs by name, and how to run it.

It knows tensors and arrays; nothing of files, of what may be trusted, or of ONNX.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor
from torch.export import ExportedProgram

from gelu_deploy.arrays import Array, Arrays, describe
from gelu_deploy.errors import ModelError, UsageError


@dataclass
class TorchOriginal:
    """A network in eval mode with example inputs; satisfies :class:`gelu_deploy.originals.original.Original`.

    Attributes:
        module: An ``nn.Module``, a ``ScriptModule`` or an ``ExportedProgram``.
        inputs: One tensor per input, in the order of forward's parameters.
        notes: One line per fact worth printing and recording.
        output_names: Names of the flattened outputs; known after the first run.
        exporters: Built-in exporters that can take this module, the best first.
        axes: For an ExportedProgram the axes that it leaves free, ``{input: {axis: name}}``; None where any may be.
        positional: How many of the first inputs are given by position; the others are keywords.
    """

    module: Any
    inputs: dict[str, Tensor]
    notes: list[str] = field(default_factory=list[str])
    output_names: list[str] = field(default_factory=list[str])
    exporters: tuple[str, ...] = ("dynamo", "torchscript")
    axes: dict[str, dict[int, str]] | None = None
    positional: int = 0

    @cached_property
    def network(self) -> Callable[..., Any]:
        """The module in a form that can be called."""
        module: Callable[..., Any] = self.module
        return module.module() if isinstance(module, ExportedProgram) else module

    @cached_property
    def examples(self) -> Arrays:
        """The example inputs as arrays; bfloat16 as ``ml_dtypes.bfloat16``."""
        return {name: to_array(tensor) for name, tensor in self.inputs.items()}

    def tensors(self) -> tuple[Tensor, ...]:
        """The example inputs in order, as an exporter takes them."""
        return tuple(self.inputs.values())

    def run(self, feeds: Mapping[str, Array]) -> Arrays:
        """The outputs for these inputs, by name.

        Raises:
            ModelError: The network refuses the inputs, or gives no tensor.
        """
        tensors = {name: to_tensor(feeds[name]) for name in self.inputs}
        try:
            with torch.no_grad():
                outputs = flatten(call(self.network, tensors, self.positional))
        except Exception as error:
            given = ", ".join(f"{name}:{describe(array)}" for name, array in feeds.items())
            raise ModelError(f"the network refuses {given}: {type(error).__name__}: {first_line(error)}") from error
        if not outputs:
            raise ModelError("the network returns no tensor: nothing can be exported or compared.")
        self.output_names = list(outputs)
        return {name: to_array(tensor) for name, tensor in outputs.items()}

    def flat(self) -> Flat:
        """The network as a function of positional tensors in the order of ``inputs``, for exporters."""
        return Flat(self.network, tuple(self.inputs), self.positional)

    def traceable(self, exporter: str, output_names: Sequence[str]) -> Any:
        """What to hand to ``exporter`` after a first run: :meth:`flat`, except for programs that are already graphs.

        An ExportedProgram goes as it is if its outputs are just ``output_names``. So does a ScriptModule that returns
        a tensor or a tuple of them; for any other, its exporter needs a trace of :meth:`flat`.
        """
        if isinstance(self.module, ExportedProgram) and exporter == "dynamo":
            outputs = self.module.graph_signature.user_outputs
            plain = len(outputs) == len(output_names) and all(isinstance(name, str) for name in outputs)
            return self.module if plain else self.flat()
        if isinstance(self.module, torch.jit.ScriptModule):
            plain = self.output_names == [f"output_{index}" for index in range(len(self.output_names))]
            return self.module if plain else self._traced()
        return self.flat()

    def _traced(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit is deprecated, and says so at every call
            return torch.jit.trace(self.flat(), self.tensors(), check_trace=False)  # type: ignore[no-untyped-call]


class Flat(torch.nn.Module):
    """Calls its child ``network`` with positional tensors and returns a flat tuple of tensors.

    What the network returns besides tensors (None, numbers, caches) is left out.
    """

    def __init__(self, network: Callable[..., Any], names: tuple[str, ...], positional: int) -> None:
        super().__init__()
        self.network = network
        self.names = names
        self.positional = positional
        self.training = False  # not eval(): the module of an ExportedProgram refuses it, and any other is in it already

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """One tensor per name in, every output tensor in order out."""
        given = dict(zip(self.names, tensors, strict=True))
        return tuple(flatten(call(self.network, given, self.positional)).values())


def call(network: Callable[..., Any], given: Mapping[str, Tensor], positional: int) -> Any:
    """What the network returns for these inputs, the first ones by position and the others by name."""
    names = list(given)
    return network(*(given[name] for name in names[:positional]), **{name: given[name] for name in names[positional:]})


def flatten(value: Any) -> dict[str, Tensor]:
    """Every tensor of a result by name: keys and positions joined by ``_``; a plain result is ``output_0``, ….

    Dicts, tuples, lists, NamedTuples and dataclasses are entered; anything else that is no tensor is left out.
    """
    named: dict[str, Tensor] = {}
    keyed = isinstance(value, Mapping) or hasattr(value, "_fields") or dataclasses.is_dataclass(value)
    whole = value if keyed or isinstance(value, (tuple, list)) else (value,)
    for path, tensor in _tensors(whole, ()):
        name = "_".join(path if keyed else ("output", *path)) or "output"
        named[name if name not in named else f"{name}_{len(named)}"] = tensor
    return named


def _tensors(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
        return
    for key, inner in _entries(value):
        yield from _tensors(inner, (*path, str(key)))


def _entries(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, (tuple, list)):
        yield from enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((part.name, getattr(value, part.name)) for part in dataclasses.fields(value))


def to_array(tensor: Tensor) -> Array:
    """A copy on the CPU, shape and values kept; bfloat16 as ``ml_dtypes.bfloat16``."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if plain.dtype == torch.bfloat16:
        return np.array(plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.array(plain.numpy())


def to_tensor(array: Array) -> Tensor:
    """A tensor of its own from an array of any byte order and layout; the opposite of :func:`to_array`.

    Raises:
        UsageError: The array holds neither numbers nor bools.
    """
    native = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    if native.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(native.view(np.int16)).view(torch.bfloat16)
    try:
        return torch.from_numpy(native)
    except TypeError:
        raise UsageError(
            f"an array of type {array.dtype} is no input of a network; expected numbers or bools"
        ) from None


def first_line(error: BaseException) -> str:
    """The first line of what an exception says."""
    return next(iter(str(error).strip().splitlines()), "no message").strip()

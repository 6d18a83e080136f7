"""Which example inputs a network is exported with: given, made up as asked, or offered; whatever was chosen is noted.

It knows forward's parameters and tensors; nothing of files of weights or of what may be trusted.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelu_deploy.arrays import describe
from gelu_deploy.errors import UsageError
from gelu_deploy.options import ExportOptions, SourceOptions
from gelu_deploy.originals.inputs import Wanted, arrays, wanted

from .original import to_array, to_tensor

Offer = tuple[str, Any]
"""Where example inputs come from, and the inputs: a dict by name, or a tensor or tuple in order."""


@dataclass(frozen=True)
class Signature:
    """Forward's parameters.

    Attributes:
        required: Name of each parameter in order, and whether it must be given.
        any_name: Whether forward takes ``**kwargs`` and names nothing itself.
        any_number: Whether forward takes ``*args``.
        by_name: Whether all can be given as keywords.
    """

    required: dict[str, bool]
    any_name: bool = False
    any_number: bool = False
    by_name: bool = True

    @classmethod
    def of(cls, module: Any) -> Signature:
        """That of a module or ScriptModule."""
        if isinstance(module, torch.jit.ScriptModule):
            scripted: Any = module
            schema = scripted.forward.schema
            return cls({arg.name: not arg.has_default_value() for arg in schema.arguments[1:]})
        named = list(inspect.signature(module.forward).parameters.values())
        kinds = {parameter.kind for parameter in named}
        fixed = [p for p in named if p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]
        return cls(
            {p.name: p.default is p.empty for p in fixed},
            any_name=inspect.Parameter.VAR_KEYWORD in kinds and not fixed,
            any_number=inspect.Parameter.VAR_POSITIONAL in kinds,
            by_name=inspect.Parameter.POSITIONAL_ONLY not in kinds,
        )

    def __str__(self) -> str:
        """``x, mask (optional)``."""
        names = [name if needed else f"{name} (optional)" for name, needed in self.required.items()]
        others = ["any, by name"] * self.any_name + ["any number, in order"] * (self.any_number and not names)
        return ", ".join([*names, *others]) or "none"


@dataclass
class Chosen:
    """Example inputs in forward's order, where they come from, and what there is to say about them.

    Attributes:
        by_name: Whether they are given as keywords.
    """

    tensors: dict[str, Tensor]
    origin: str
    by_name: bool = True
    notes: list[str] = field(default_factory=list[str])


def choose(module: Any, signature: Signature, options: SourceOptions, offers: Sequence[Offer]) -> Chosen:
    """The example inputs for a network.

    Precedence: ``--data``, then ``--input``, then the first offer that is not None. Float inputs take the network's
    float type; a batch of one becomes two, since torch.export treats the size 1 as fixed.

    Raises:
        UsageError: There are none, one that is needed is missing, or one has a name that forward does not take.
    """
    if options.data or options.input:
        chosen = _given(module, signature, options)
    else:
        origin, value = next((offer for offer in offers if offer[1] is not None), ("", None))
        if value is None:
            raise UsageError(f"no example inputs: {_advice(signature, list(signature.required))}")
        chosen = _offered(signature, origin, value)
    missing = [name for name, needed in signature.required.items() if needed and name not in chosen.tensors]
    if missing and chosen.by_name:
        raise UsageError(f"no example for {', '.join(missing)}: {_advice(signature, missing)}")
    _cast(chosen, float_type(module) or getattr(torch, options.dtype or "", None))
    if not isinstance(options, ExportOptions) or options.batch:
        _widen(chosen)
    shapes = ", ".join(f"{name} {describe(to_array(tensor))}" for name, tensor in chosen.tensors.items())
    chosen.notes.insert(0, f"inputs: {shapes} ({chosen.origin})")
    return chosen


def float_type(module: Any) -> torch.dtype | None:
    """The float type of all weights; None if there are none, or several types."""
    weights = [] if not isinstance(module, torch.nn.Module) else [*module.parameters(), *module.buffers()]
    types = {weight.dtype for weight in weights if weight.is_floating_point()}
    return types.pop() if len(types) == 1 else None


def _given(module: Any, signature: Signature, options: SourceOptions) -> Chosen:
    data, made = arrays(options.data), wanted(options.input)
    free = signature.any_name or (signature.any_number and not signature.required)
    used = {name: array for name, array in data.items() if free or name in signature.required}
    if data and not used and not made:
        raise UsageError(f"--data {options.data} holds {', '.join(data)}; the network's inputs are {signature}")
    for name in made:
        if name not in signature.required and not free:
            raise UsageError(f"--input {name}: there is no such input; the network's inputs are {signature}")
    rows = {array.shape[:1] for array in used.values()}
    if len(rows) == 1:
        used = {name: array[:2] if array.ndim else array for name, array in used.items()}
    bound = _bound(module)
    tensors = {name: made_up(name, want, bound) for name, want in made.items()}
    tensors |= {name: to_tensor(array) for name, array in used.items()}
    order = [*(name for name in signature.required if name in tensors), *tensors]
    origin = [f"from {options.data}"] * bool(used) + ["seeded random values, as --input says"] * bool(made)
    by_name = signature.by_name and (signature.any_name or set(tensors) <= set(signature.required))
    chosen = Chosen({name: tensors[name] for name in order}, ", ".join(origin), by_name)
    if len(used) < len(data):
        chosen.notes.append(f"not inputs, ignored in {options.data}: {', '.join(sorted(set(data) - set(used)))}")
    return chosen


def _offered(signature: Signature, origin: str, value: Any) -> Chosen:
    if isinstance(value, Mapping):
        named, by_name = {str(name): item for name, item in value.items() if item is not None}, True
        unknown = [name for name in named if name not in signature.required]
        if unknown and not signature.any_name:
            raise UsageError(f"{origin} gives {', '.join(unknown)}; the network's inputs are {signature}")
        named = {name: named[name] for name in (*(n for n in signature.required if n in named), *unknown)}
    else:
        items = list(value) if isinstance(value, (tuple, list)) else [value]
        names = list(signature.required)
        by_name = signature.by_name and len(items) <= len(names)
        if len(items) > len(names) and not signature.any_number:
            raise UsageError(f"{origin} gives {len(items)} inputs; the network's inputs are {signature}")
        names += [f"input_{index}" for index in range(len(names), len(items))]
        named = dict(zip(names, items, strict=False))
    tensors = {name: _tensor(name, item, origin) for name, item in named.items()}
    return Chosen(tensors, f"from {origin}", by_name and signature.by_name)


def _tensor(name: str, value: Any, origin: str) -> Tensor:
    if isinstance(value, np.ndarray):
        return to_tensor(value)
    if isinstance(value, Tensor) and value.device.type != "meta" and value.layout == torch.strided:
        return value.detach().cpu().clone()
    raise UsageError(f"{origin} gives a {type(value).__name__} for {name}; expected a tensor or array with values")


def made_up(name: str, want: Wanted, bound: int) -> Tensor:
    """Seeded values: normal floats, integers in [0, bound), bools; ones for an integer mask."""
    generator = torch.Generator().manual_seed(0)
    dtype: torch.dtype = getattr(torch, want.dtype)
    try:
        if dtype.is_floating_point:
            return torch.randn(want.shape, generator=generator).to(dtype)
        if "mask" in name and dtype != torch.bool:
            return torch.ones(want.shape, dtype=dtype)
        return torch.randint(0, 2 if dtype == torch.bool else bound, want.shape, generator=generator).to(dtype)
    except (RuntimeError, MemoryError):
        size = "x".join(map(str, want.shape))
        raise UsageError(f"--input {name}: {size} is larger than this machine's memory; give a smaller shape") from None


def _bound(module: Any) -> int:
    """The number of rows of the smallest table that the network looks integers up in, else 2."""
    modules = module.modules() if isinstance(module, torch.nn.Module) else ()
    tables = [part.num_embeddings for part in modules if isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag))]
    return min(tables, default=2)


def _cast(chosen: Chosen, dtype: torch.dtype | None) -> None:
    for name, tensor in chosen.tensors.items():
        if dtype is not None and tensor.is_floating_point() and tensor.dtype != dtype:
            chosen.tensors[name] = tensor.to(dtype)
            chosen.notes.append(f"{name} cast from {_name(tensor.dtype)} to {_name(dtype)}, the network's type")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _widen(chosen: Chosen) -> None:
    if chosen.tensors and all(tensor.ndim and tensor.shape[0] == 1 for tensor in chosen.tensors.values()):
        for name, tensor in chosen.tensors.items():
            chosen.tensors[name] = tensor.repeat(2, *[1] * (tensor.ndim - 1))
        chosen.notes.append("the batch of one was repeated to two, so that the batch axis can stay free")


def _advice(signature: Signature, names: Sequence[str]) -> str:
    needed = [name for name in names if signature.required.get(name)] or list(names)[:1] or ["x"]
    flags = " ".join(f"--input {name}:2x…:float32" for name in needed)
    such = "NAME:SHAPE:DTYPE, such as x:2x3x224x224:float32 or ids:2x16:int64"
    return f"add {flags} ({such}), or --data X.npz; forward's parameters are {signature}"

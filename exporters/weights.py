"""Fits a dict of weights to a network: prefixes of wrappers, float types, what is missing or does not fit.

It knows modules and tensors; nothing of files or of what may be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from gelu_deploy.errors import ModelError

_PREFIXES = ("module.", "model.", "net.", "_orig_mod.")
_COMPILED = "_orig_mod."
_SHOWN = 8
_SPARE = 1 << 30


def tensors_of(found: Any, path: str, size: int) -> dict[str, Tensor]:
    """The tensors of a state_dict that came from a file of ``size`` bytes.

    Raises:
        ModelError: It holds none, or tensors without values, or far more of them than the file can hold.
    """
    weights = {str(name): value for name, value in dict(found).items() if isinstance(value, Tensor)}
    if not weights:
        raise ModelError(f"{path} holds no tensors where its weights should be.")
    for name, tensor in weights.items():
        if tensor.device.type == "meta" or tensor.layout != torch.strided or tensor.is_quantized:
            what = "has no values (meta)" if tensor.device.type == "meta" else "is sparse or quantized"
            raise ModelError(f"{path}: the weight {name} {what}; save plain dense tensors.")
    claimed = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    if claimed > 16 * size + _SPARE:
        raise ModelError(f"{path} claims {claimed / 1e9:.0f} GB of weights in a file of {size} bytes: refused.")
    return weights


def fit(module: torch.nn.Module, weights: Mapping[str, Tensor], path: str, *, strict: bool) -> list[str]:
    """Load weights into a network, in the float types that they have; one note per thing that was not plain.

    Raises:
        ModelError: Weights are missing, unexpected or of another shape, and ``strict`` is set.
    """
    wanted = module.state_dict(keep_vars=True)
    renamed, notes = _renamed(weights, wanted)
    shapes = [name for name in wanted if name in renamed and renamed[name].shape != wanted[name].shape]
    problems = _listed("missing", [name for name in wanted if name not in renamed])
    problems += _listed("unexpected", [name for name in renamed if name not in wanted])
    problems += _listed("of another shape", [_shapes(name, renamed[name], wanted[name]) for name in shapes])
    if problems and strict:
        advice = "give the --arch and --arch-arg that these weights were trained with, or --no-strict to load what fits"
        raise ModelError(f"{path} does not fit the network: {'; '.join(problems)}; {advice}.")
    notes += [f"not strict: {problem}" for problem in problems]
    fitting = {name: renamed[name] for name in wanted if name in renamed and name not in shapes}
    if not fitting:
        raise ModelError(f"{path}: none of its weights fits the network; it needs another --arch.")
    notes += _take_types(module, wanted, fitting)
    module.load_state_dict(fitting, strict=False)
    return notes


def _renamed(weights: Mapping[str, Tensor], wanted: Iterable[str]) -> tuple[dict[str, Tensor], list[str]]:
    """Without the prefixes of wrappers where that makes more names fit."""
    names, best = set(wanted), dict(weights)
    removed: str = ""
    current, taken = dict(weights), ""
    while True:
        prefix = next((prefix for prefix in _PREFIXES if any(name.startswith(prefix) for name in current)), None)
        if prefix is None:
            break
        current, taken = {name.removeprefix(prefix): value for name, value in current.items()}, taken + prefix
        if len(names & current.keys()) > len(names & best.keys()):
            best, removed = current, taken
    inner = {name.replace(_COMPILED, ""): value for name, value in best.items()}
    if len(names & inner.keys()) > len(names & best.keys()):
        best, removed = inner, removed + _COMPILED
    return best, [f"prefix {removed} taken off the names of the weights"] if removed else []


def _take_types(module: torch.nn.Module, wanted: Mapping[str, Tensor], fitting: Mapping[str, Tensor]) -> list[str]:
    """Give the network the float types of its weights: a float16 checkpoint stays float16."""
    floats = {name: tensor.dtype for name, tensor in fitting.items() if tensor.is_floating_point()}
    changed = {dtype for name, dtype in floats.items() if dtype != wanted[name].dtype}
    if not changed:
        return []
    if len(set(floats.values())) == 1:
        module.to(dtype=changed.copy().pop())
    else:
        for name, dtype in floats.items():
            wanted[name].data = wanted[name].data.to(dtype)
    names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in changed))
    return [f"the weights are {names}, and so is the network now (--dtype changes that)"]


def _shapes(name: str, found: Tensor, wanted: Tensor) -> str:
    return f"{name} {list(found.shape)} for {list(wanted.shape)}"


def _listed(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{len(names)} {what}: {', '.join(names[:_SHOWN])}{more}"]

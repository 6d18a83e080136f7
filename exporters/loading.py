"""From any source but ONNX to a network with example inputs. The only place that calls ``torch.load``.

Loading is ``weights_only`` and never falls back; what runs code needs a flag, and every flag that was used is noted.
It knows nothing of exporters or of ONNX.
"""

from __future__ import annotations

import ast
import copy
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from gelu_deploy import target
from gelu_deploy.errors import ModelError, SetupError, TargetError, UnsafeError, UsageError
from gelu_deploy.keywords import once
from gelu_deploy.options import SourceOptions
from gelu_deploy.source import Kind, Source, identify

from . import huggingface, trust, weights
from .inputs import Offer, Signature, choose
from .original import TorchOriginal, first_line

_OLDEST = (2, 10)
_MODULE_KEYS = ("ema", "model")


def load(source: Source, options: SourceOptions, inputs: Any = None) -> TorchOriginal:
    """The network of a source in eval mode, with example inputs; ``inputs`` where there are no others.

    Raises:
        UsageError: An option is missing or cannot be meant; TargetError for ``--arch``.
        UnsafeError: The source would run code, and no option allows it.
        ModelError: The source is damaged, or does not fit the network.
        SetupError: torch is too old to read untrusted files, or a package is missing.
    """
    if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < _OLDEST:
        raise SetupError(f"torch {torch.__version__} has known holes in its loader; pip install 'torch>=2.10'")
    loaders = {
        Kind.MODULE_PICKLE: _module_pickle,
        Kind.STATE_DICT: _weights,
        Kind.CHECKPOINT: _weights,
        Kind.SAFETENSORS: _weights,
        Kind.TORCHSCRIPT: _torchscript,
        Kind.EXPORTED_PROGRAM: _exported_program,
        Kind.TARGET: _target,
        Kind.HF_FOLDER: _folder,
    }
    if source.kind not in loaders:
        raise UsageError(f"{source.line}: this is not PyTorch's to load.")
    module, offers, notes = loaders[source.kind](source, options)
    return _original(module, [*_arch_offer(source, options), *offers, ("the golden data", inputs)], options, notes)


def from_module(module: Any, inputs: Any, options: SourceOptions) -> TorchOriginal:
    """A network that is already in memory; it is put in eval mode, and copied first if ``options.dtype`` changes it.

    Args:
        module: An ``nn.Module``, ScriptModule or ExportedProgram.
        inputs: Example inputs: by name, a tuple in order, one tensor, or None to take them from the options.
        options: ``data``, ``input`` and ``dtype`` apply.

    Raises:
        UsageError: It is no network, or its inputs are unknown or do not fit.
    """
    if not isinstance(module, (torch.nn.Module, ExportedProgram)):
        raise UsageError(f"expected a path or a torch.nn.Module, got a {type(module).__name__}.")
    if options.dtype and isinstance(module, torch.nn.Module):
        module = copy.deepcopy(module)
    return _original(module, [("the call", inputs)], options, [])


def _original(module: Any, offers: list[Offer], options: SourceOptions, notes: list[str]) -> TorchOriginal:
    if isinstance(module, ExportedProgram):
        return _program(module, offers, options, notes)
    module.eval()
    if options.dtype:
        module.to(dtype=getattr(torch, options.dtype))
        notes.append(f"cast to {options.dtype}")
    signature = Signature.of(module)
    chosen = choose(module, signature, options, offers)
    exporters = ("torchscript",) if isinstance(module, torch.jit.ScriptModule) else ("dynamo", "torchscript")
    positional = 0 if chosen.by_name else len(chosen.tensors)
    return TorchOriginal(module, chosen.tensors, notes + chosen.notes, exporters=exporters, positional=positional)


def _program(program: ExportedProgram, offers: list[Offer], options: SourceOptions, notes: list[str]) -> TorchOriginal:
    if options.dtype:
        raise UsageError("--dtype: the types of an ExportedProgram are fixed; cast the module before torch.export.")
    call = program.module_call_graph[0].signature
    names = tuple((call.forward_arg_names if call else None) or map(str, program.graph_signature.user_inputs))
    given: tuple[Any, dict[str, Any]] = program.example_inputs or ((), {})
    sample = dict(zip(names, given[0], strict=False)) | given[1]
    signature = Signature(dict.fromkeys(names, True))
    chosen = choose(None, signature, options, [*offers, ("the sample inputs in the file", sample or None)])
    values = [node.meta["val"] for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    axes = {name: _free(value) for name, value in zip(chosen.tensors, values, strict=False)}
    free = ", ".join(f"{name}:{axis}" for name, axes_of in axes.items() for axis in axes_of) or "none"
    notes = [*notes, *chosen.notes, f"axes left free by torch.export: {free}"]
    positional = len(names) - len(given[1])
    return TorchOriginal(program, chosen.tensors, notes, exporters=("dynamo",), axes=axes, positional=positional)


def _free(value: Any) -> dict[int, str]:
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    return {axis: str(size) for axis, size in enumerate(shape) if isinstance(size, torch.SymInt)}


Loaded = tuple[Any, list[Offer], list[str]]


def _weights(source: Source, options: SourceOptions) -> Loaded:
    """A state_dict, alone or in a checkpoint, or safetensors."""
    if not options.arch:
        raise UsageError(
            f"{source.line}. These are weights without a network: say which class or function builds it with"
            " --arch FILE.py:NAME (its arguments: --arch-arg NAME=VALUE)."
        )
    opened = _safetensors if source.kind == Kind.SAFETENSORS else _unpickled
    found, notes = opened(source, options)
    for key in source.weights:
        found = found[key]
    if source.weights:
        others = f"; not used: {', '.join(source.others)}" if source.others else ""
        notes.append(f"weights taken from {'.'.join(source.weights)}{others}")
    tensors = weights.tensors_of(found, source.path, source.size)
    module = _built(options.arch, options)
    return module, [], notes + weights.fit(module, tensors, source.path, strict=options.strict)


def _unpickled(source: Source, options: SourceOptions) -> tuple[Any, list[str]]:
    entries, notes = trust.allowed(source, options.allow_class)
    trust.refuse_unknown(source, entries)
    try:
        with torch.serialization.safe_globals(entries), _quiet():
            return torch.load(source.path, map_location="cpu", weights_only=True), notes
    except pickle.UnpicklingError as error:
        name = re.search(r"GLOBAL ([\w.]+)", str(error))
        if name:
            raise trust.refusal(source, [name[1]]) from None
        reason = re.search(r"Unsupported operand \d+", str(error))
        raise ModelError(
            f"{source.path}: torch's safe loader cannot read it ({reason[0] if reason else first_line(error)}); save it"
            " again with torch.save and its default pickle_protocol."
        ) from None
    except Exception as error:
        raise _damaged(source, error) from error


def _safetensors(source: Source, _options: SourceOptions) -> tuple[Any, list[str]]:
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError:
        raise SetupError(f"{source.line}. To load it: pip install safetensors") from None
    try:
        return load_file(source.path), []
    except Exception as error:
        raise ModelError(f"{source.path} is a damaged safetensors file: {first_line(error)}") from error


def _module_pickle(source: Source, options: SourceOptions) -> Loaded:
    if not options.trust_pickle:
        raise trust.refusal(source, _telling(source.globals))
    try:
        with target.importable(options.arch.rpartition(":")[0] if options.arch else ""), _quiet():
            found = torch.load(source.path, map_location="cpu", weights_only=False)
    except (AttributeError, ImportError) as error:
        advice = "run where its classes can be imported, or save a state_dict and give --arch"
        raise ModelError(f"{source.path}: its code is not here ({first_line(error)}); {advice}.") from error
    except Exception as error:
        raise _damaged(source, error) from error
    notes = ["trusted pickle: the file ran its own code while it was loaded"]
    held = found if isinstance(found, Mapping) else {}
    for key in [*(key for key in _MODULE_KEYS if key in held), *held]:
        if isinstance(held[key], torch.nn.Module):
            return held[key], [], [*notes, f"module taken from {key}"]
    if isinstance(found, torch.nn.Module):
        return found, [], notes
    raise ModelError(f"{source.path} holds a {type(found).__name__}, not a torch.nn.Module.")


def _telling(names: tuple[str, ...]) -> list[str]:
    """The names that say most: first what is not torch's own, without those that only make tensors."""
    foreign = [name for name in names if not name.startswith(("torch.", "collections.", "builtins."))]
    return foreign + [name for name in names if name.startswith("torch.nn.modules.")] or list(names)


def _torchscript(source: Source, options: SourceOptions) -> Loaded:
    _need_trust(source, options, "TorchScript is a program: it runs while it is loaded, and may read and write files")
    try:
        with _quiet():
            module = torch.jit.load(source.path, map_location="cpu")  # type: ignore[no-untyped-call]  # torch's own gap
    except Exception as error:
        raise _damaged(source, error) from error
    return module, [], ["trusted code: TorchScript"]


def _exported_program(source: Source, options: SourceOptions) -> Loaded:
    _need_trust(source, options, "a .pt2 file can hold pickles, which run code while it is loaded")
    try:
        with _quiet():
            program = torch.export.load(source.path)
    except Exception as error:
        raise _damaged(source, error) from error
    return program, [], ["trusted code: .pt2"]


def _need_trust(source: Source, options: SourceOptions, why: str) -> None:
    if not options.trust_code:
        raise UnsafeError(f"{source.line}. Refused: {why}. If you trust where it comes from, say --trust-code.")


def _folder(source: Source, options: SourceOptions) -> Loaded:
    for file in sorted(Path(source.path).glob("pytorch_model*.bin")):
        trust.refuse_unknown(identify(str(file)), trust.table())
    module, inputs, notes = huggingface.load(source.path, options)
    return module, [("the config", inputs)], notes


def _target(source: Source, options: SourceOptions) -> Loaded:
    if options.arch:
        raise UsageError(f"--arch {options.arch}: {source.path} names the network already; leave --arch out")
    return _built(source.path, options), [], ["no file of weights: the weights are as the code makes them"]


def _built(where: str, options: SourceOptions) -> torch.nn.Module:
    """The module that a target is, or builds from ``--arch-arg``; random weights are seeded."""
    made = target.load(where)
    if not isinstance(made, torch.nn.Module):
        arguments = once("--arch-arg", (_argument(text) for text in options.arch_arg))
        if not callable(made):
            raise TargetError(
                f"{where} is of type {type(made).__name__}; expected a torch.nn.Module, its class or a factory."
            )
        try:
            with target.importable(target.split(where)[0]), _seeded():
                made = made(**arguments)
        except Exception as error:
            given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            raise TargetError(f"{where}({given}) failed: {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(made, torch.nn.Module):
        raise TargetError(f"{where} gave an object of type {type(made).__name__}; expected a torch.nn.Module.")
    return made


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--arch-arg {text}: expected NAME=VALUE, for example depth=4")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name, value


def _arch_offer(source: Source, options: SourceOptions) -> list[Offer]:
    """``example_inputs`` of the file or module that builds the network, if it offers them."""
    arch = source.path if source.kind == Kind.TARGET else options.arch
    if not arch or options.data or options.input:
        return []
    where = target.split(arch)[0]
    offered = getattr(target.module(where), "example_inputs", None)
    try:
        with target.importable(where), _seeded():
            return [(f"example_inputs of {Path(where).name}", offered() if callable(offered) else offered)]
    except Exception as error:
        raise TargetError(f"{where}:example_inputs failed: {type(error).__name__}: {first_line(error)}") from error


def _damaged(source: Source, error: Exception) -> ModelError:
    return ModelError(f"{source.path}: torch cannot read it: {type(error).__name__}: {first_line(error)}")


@contextmanager
def _seeded() -> Iterator[None]:
    """With the same random numbers every time; the caller's own go on afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's notices of formats and functions that it means to retire: the user can do nothing about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

"""Which names a pickle may import while its weights are read, and how a refusal is worded.

One table of classes that only hold data; torch's own loader is the gate, this makes its refusals readable. It knows
names, and nothing of how a file is loaded.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import pathlib
import re
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from gelu_deploy.errors import TargetError, UnsafeError, UsageError
from gelu_deploy.source import Kind, Source
from gelu_deploy.target import load

Allowed = Callable[..., Any] | tuple[Callable[..., Any], str]

# What torch itself allows with weights_only: tensors, storages, dtypes and a few containers.
_TORCH = re.compile(
    r"torch\.(_utils\._rebuild_\w+|_tensor\._rebuild_from_type_v2|serialization\._get_layout|nn\.parameter\.\w+"
    r"|((cuda|sparse|storage)\.)?\w*(Storage|Tensor)|Size|device|per_\w+|[a-z]+\d\w*|bool|half|float|double|int|long)"
    r"|collections\.(OrderedDict|Counter)|_codecs\.encode|builtins\.(set|bytearray|complex)"
)
_HOSTILE = re.compile(
    r"(os|posix|nt|sys|subprocess|shutil|socket|runpy|pty|ctypes|importlib|webbrowser)\."
    r"|builtins\.(eval|exec|compile|getattr|setattr|open|__import__|apply|input)$"
)
_NUMPY = ("numpy.core.multiarray", "numpy._core.multiarray")  # before NumPy 2, and since
_PATHS = {
    "PosixPath": pathlib.PurePosixPath,
    "PurePosixPath": pathlib.PurePosixPath,
    "WindowsPath": pathlib.PureWindowsPath,
    "PureWindowsPath": pathlib.PureWindowsPath,
}  # a path of the other system cannot be made here, a pure one can
_BUILTINS = (bool, bytes, dict, float, frozenset, int, list, slice, str, tuple)


def _plain_dict(*_given: object) -> dict[Any, Any]:
    """Stands for a defaultdict: torch's loader fills plain dicts only."""
    return {}


def _plain_list(*_given: object) -> list[Any]:
    """Stands for a deque: torch's loader fills plain lists only."""
    return []


def table() -> list[Allowed]:
    """Every class and function that only makes data, with the name that files call it by."""
    arrays: Any = importlib.import_module("numpy._core.multiarray")
    return [
        *((getattr(arrays, name), f"{home}.{name}") for name in ("scalar", "_reconstruct") for home in _NUMPY),
        (np.ndarray, "numpy.ndarray"),
        (np.dtype, "numpy.dtype"),
        *((getattr(np.dtypes, name), f"numpy.dtypes.{name}") for name in np.dtypes.__all__),
        *((kind, f"{home}.{name}") for name, kind in _PATHS.items() for home in ("pathlib", "pathlib._local")),
        (argparse.Namespace, "argparse.Namespace"),
        (types.SimpleNamespace, "types.SimpleNamespace"),
        (_plain_dict, "collections.defaultdict"),
        (_plain_list, "collections.deque"),
        *((kind, f"datetime.{kind.__name__}") for kind in (dt.date, dt.time, dt.datetime, dt.timedelta, dt.timezone)),
        *((kind, f"builtins.{kind.__name__}") for kind in _BUILTINS),
        (torch.torch_version.TorchVersion, "torch.torch_version.TorchVersion"),
    ]


def allowed(source: Source, extra: Iterable[str]) -> tuple[list[Allowed], list[str]]:
    """The table and the classes of ``--allow-class``, with a note for each of those.

    A class that the file does not name is not imported.

    Raises:
        UsageError: A name is no class.
    """
    entries, notes = table(), list[str]()
    for name in extra:
        if name not in source.globals:
            notes.append(f"--allow-class {name}: the file does not name it")
            continue
        entries.append((_class(name), name))
        notes.append(f"allowed class: {name}")
    return entries, notes


def refuse_unknown(source: Source, entries: Iterable[Allowed]) -> None:
    """Raise UnsafeError if the file's pickle names anything that is neither torch's plain data nor allowed."""
    names = {entry[1] for entry in entries if isinstance(entry, tuple)}
    unknown = [name for name in source.globals if name not in names and not _TORCH.fullmatch(name)]
    if unknown:
        raise refusal(source, unknown)


def refusal(source: Source, names: list[str]) -> UnsafeError:
    """What the file would run, and the ways on."""
    hostile = [name for name in names if _HOSTILE.match(name)]
    if hostile:
        return UnsafeError(
            f"{source.line}. It wants to run {', '.join(hostile)}, which no network needs: do not load this file, and"
            " be wary of where it comes from."
        )
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    save = "save the weights alone, torch.save(model.state_dict(), 'weights.pt'), and give --arch FILE.py:NAME"
    if source.kind == Kind.MODULE_PICKLE:
        return UnsafeError(
            f"{source.line}. Loading it runs code: {shown}. The safe way: {save}. If you trust where the file comes"
            " from, say --trust-pickle."
        )
    return UnsafeError(
        f"{source.line}. It wants to run {shown}, which is not plain data. The safe way: {save}. If it is a class that"
        f" only holds data, say --allow-class {names[0]}."
    )


def _class(name: str) -> type:
    module, _, attribute = name.rpartition(".")
    try:
        found = load(f"{module}:{attribute}")
    except TargetError as error:
        raise UsageError(f"--allow-class {name}: {error}") from None
    if not isinstance(found, type):
        raise UsageError(
            f"--allow-class {name}: this is a {type(found).__name__}, not a class; functions are never allowed"
        )
    return found

"""The runtime itself: which one is installed, what it can run on, how many threads it gets, how a session is opened.

It knows nothing of arrays or of artifacts. Nothing is imported before it is needed.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gelu_deploy.errors import LimitError, ModelError, SetupError, UsageError
from gelu_deploy.runtime.settings import DEFAULT, Settings

DISTRIBUTIONS = ("onnxruntime", "onnxruntime-gpu")
"""Both install the same module ``onnxruntime``, so that only one of them can be there."""


@dataclass(frozen=True)
class Provider:
    """Something that a graph runs on.

    Attributes:
        name: Short, as ``--provider`` takes it; the runtime's own name where there is none.
        full: The runtime's own name.
        remedy: What to do when it cannot be had.
        options: What the runtime is told about it.
    """

    name: str
    full: str
    remedy: str
    options: dict[str, str] = field(default_factory=dict)


_LONGEST = 400  # characters of the runtime's message that are worth reading

CPU = Provider("cpu", "CPUExecutionProvider", "pip install 'gelu-deploy[cpu]'")
CUDA = Provider(
    "cuda",
    "CUDAExecutionProvider",
    "A CUDA device with its driver is needed, and: pip uninstall onnxruntime; pip install 'gelu-deploy[gpu]'",
    {"use_tf32": "0"},  # TF32 has 10 bits of mantissa: no float32 tolerance would hold
)
LAYOUTS = ("NchwcTransformer", "NhwcTransformer")
"""Optimisers that only change how memory is laid out, and rename every value that they touch: off while a graph is
saved to be read."""

TABLE = {provider.name: provider for provider in (CPU, CUDA)}


def onnxruntime() -> Any:
    """The module ``onnxruntime``. Raises SetupError when it is not installed, or installed twice."""
    found = installed()
    if len(found) > 1:
        raise SetupError(
            f"{' and '.join(found)} are both installed and overwrite each other's files. Keep one: "
            f"pip uninstall {' '.join(found)}; pip install 'gelu-deploy[cpu]' (or [gpu])."
        )
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    os.environ.pop("ORT_LOAD_CONFIG_FROM_MODEL", None)  # a model must not choose threads, or files to write
    try:
        import onnxruntime as module
    except ImportError as error:
        raise SetupError(
            f"ONNX Runtime cannot be imported: {error}. For the CPU: pip install 'gelu-deploy[cpu]'; "
            "for CUDA: pip install 'gelu-deploy[gpu]'."
        ) from error
    return module


def installed() -> dict[str, str]:
    """The runtimes that are installed, name to version."""
    found: dict[str, str] = {}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def choose(name: str) -> Provider:
    """The provider of this name, loaded once to prove that it works; ``auto`` is CUDA where that works, else the CPU.

    Raises:
        UsageError: There is no such name.
        SetupError: The provider cannot be had here.
    """
    if name == "auto":
        with contextlib.suppress(SetupError):
            return _proved(CUDA.full)
        return _proved(CPU.full)
    known = next((known for known in TABLE.values() if name in {known.name, known.full}), None)
    if known is None and not name.endswith("ExecutionProvider"):
        raise UsageError(f"There is no provider {name!r}; expected {', '.join(TABLE)}, auto, or a full name.")
    return _proved(known.full if known else name)


def prove(provider: Provider) -> None:
    """Run a graph of one node there. Raises SetupError, with the remedy, when the provider cannot be had."""
    available = onnxruntime().get_available_providers()
    if provider.full not in available:
        raise SetupError(
            f"Provider {provider.name!r} is not in the installed ONNX Runtime, which has {', '.join(available)}. "
            f"{provider.remedy}."
        )
    try:
        session = open_session(_one_node(), provider)
        session.run(None, {"x": [1.0]})
    except Exception as error:
        raise SetupError(
            f"Provider {provider.name!r} does not work here: {reason(error)} {provider.remedy}."
        ) from error
    if provider.full not in session.get_providers():
        raise SetupError(f"Provider {provider.name!r} does not load: a library of its is missing. {provider.remedy}.")


def open_session(
    model: bytes | Path,
    provider: Provider,
    *,
    settings: Settings = DEFAULT,
    optimise: bool = True,
    save: Path | None = None,
) -> Any:
    """An ``onnxruntime.InferenceSession``; nodes that the provider has no kernel for run on the CPU.

    Args:
        model: A serialised model, or its file.
        provider: From :func:`choose`.
        settings: How it is opened; by default with as many threads as this process may use.
        optimise: Whether the runtime optimises the graph first, at its default level.
        save: Where the runtime writes the graph that it made, before it changes layouts and renames values for them.

    Raises:
        ModelError: The runtime refuses the model.
        LimitError: There is not enough memory for it.
    """
    ort = onnxruntime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = settings.threads or available_threads()
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if not settings.spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if save is not None:
        options.optimized_model_filepath = str(save)
    if provider == CUDA:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not find
            ort.preload_dlls()
    wanted = {provider.full: provider.options, CPU.full: CPU.options}
    source = model if isinstance(model, bytes) else str(model)
    disabled = [*settings.disabled_optimizers, *(() if save is None else LAYOUTS)]
    with native("The runtime refuses the model"):
        return ort.InferenceSession(
            source, options, list(wanted.items()), enable_fallback=0, disabled_optimizers=disabled or None
        )


@contextlib.contextmanager
def native(what: str) -> Generator[None]:
    """Whatever the runtime raises inside the block is a ModelError, or a LimitError, that begins with ``what``."""
    try:
        yield
    except MemoryError:
        raise LimitError(f"{what}: there is not enough memory.") from None
    except Exception as error:
        kind = LimitError if "Failed to allocate memory" in str(error) else ModelError
        raise kind(f"{what}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """What the runtime says, in one line and without places in its source."""
    text = re.sub(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", "", " ".join(str(error).split()))
    text = re.sub(r"^Load model from .*? failed: ?", "", text)
    text = re.sub(r"\S*/\S+\.(?:cc|cpp|cu|h):\d+ (?:[^()]*\([^()]*\)(?: const)? )?", "", text)
    return (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…").rstrip(".") + "."


def available_threads() -> int:
    """Cores that this process may use: its affinity, or its control group's quota where that is less."""
    return max(1, min(affinity(), int(quota() or affinity())))


def affinity() -> int:
    """Cores that this process may be scheduled on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """Cores' worth of time that the control group allows, of itself and of all above it; None where it sets no limit.

    Args:
        root: Where control groups are mounted, version 1 or 2.
        own: The file that names this process's groups.
    """
    try:
        groups = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    limits: list[float] = []
    for _, controllers, path in groups:
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        inner = base / path.strip("/")
        for folder in [inner, *inner.parents]:
            if folder.is_relative_to(base):
                limits += _limit(folder)
    return min(limits, default=None)


def _limit(group: Path) -> list[float]:
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):  # not this version, or "max"
            most, period = (int(word) for name in names for word in (group / name).read_text().split())
            if most > 0:
                return [most / period]
    return []


@cache
def _proved(full: str) -> Provider:
    """The CPU needs no proof: every build has it."""
    known = next((known for known in TABLE.values() if known.full == full), None)
    provider = known or Provider(full, full, "Install a build of ONNX Runtime that has it")
    if provider != CPU:
        prove(provider)
    return provider


def _one_node() -> bytes:
    from onnx import parser

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Add(x, x) }'
    return bytes(parser.parse_model(text).SerializeToString())

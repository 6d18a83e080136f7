"""Opens whatever was called a model: the one door from a path to something that runs.

It knows which loader belongs to which kind of file, and no torch: torch's loaders are found by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from gelu_deploy import artifact
from gelu_deploy.arrays import Arrays
from gelu_deploy.errors import SetupError, UsageError
from gelu_deploy.options import ExportOptions, SourceOptions
from gelu_deploy.originals.original import Original
from gelu_deploy.source import Kind, Source, identify
from gelu_deploy.target import load

LOADING = "gelu_deploy.exporters.loading"


def open_original(model: object, options: SourceOptions, inputs: Arrays | None = None) -> tuple[Original, str]:
    """The original behind a path, or around a module in memory, and one line that says what it is.

    ``inputs`` are examples, by name, for a PyTorch network that has none of its own and is given none.

    Raises UsageError, UnsafeError or ModelError as the loader does, SetupError when PyTorch is needed and missing.
    """
    if not isinstance(model, str):
        need_torch(f"a {type(model).__name__} in memory")
        original: Original = load(f"{LOADING}:from_module")(model, inputs, options)
        return original, f"{type(model).__name__} in memory"
    source = identify(model)
    if source.kind == Kind.ONNX:
        return _onnx(source, options), source.line
    need_torch(source.line)
    original = load(f"{LOADING}:load")(source, options, inputs)
    return original, source.line


def need_torch(what: str) -> None:
    """Raises SetupError with the command to type when PyTorch is not installed."""
    if find_spec("torch") is None or find_spec("onnxscript") is None:
        raise SetupError(f"{what}: needs PyTorch to load and export it; pip install 'gelu-deploy[torch]'")


def _torch_only(options: SourceOptions) -> Iterator[tuple[str, object]]:
    """Flags that say nothing to an ONNX file, and whether they were given."""
    yield from (("--arch", options.arch), ("--arch-arg", options.arch_arg), ("--dtype", options.dtype))
    if isinstance(options, ExportOptions):
        own = options.exporter != ExportOptions.exporter
        yield from (("--exporter", own), ("--dynamic", options.dynamic), ("--no-batch", not options.batch))


def _onnx(source: Source, options: SourceOptions) -> Original:
    from gelu_deploy.originals.inputs import arrays, wanted
    from gelu_deploy.originals.onnx_file import OnnxOriginal

    given = [flag for flag, value in _torch_only(options) if value]
    if given:
        raise UsageError(f"{source.line}: {' and '.join(given)} mean something for PyTorch models only; leave them out")
    artifact.verify(source.path)
    return OnnxOriginal(source.path, arrays(options.data), wanted(options.input))

"""``run``: an ONNX file once, on arrays from a file.

It knows sessions and ``.npz`` files, and nothing of GELU.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.artifact.staging import Staging, reporting, staging
from gelu_deploy.errors import UsageError
from gelu_deploy.options import RunOptions
from gelu_deploy.originals.inputs import opened
from gelu_deploy.progress import step
from gelu_deploy.results import RunResult, Tensor
from gelu_deploy.runtime import Session
from gelu_deploy.runtime.feeds import BITS, Spec
from gelu_deploy.source import require_onnx

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays

SCHEMA = "gelu-deploy/run/1"


def run(model: str, options: RunOptions) -> RunResult:
    """Run ``model`` on the arrays of ``options.data`` and, if asked, write its outputs.

    Arrays that are no input, such as labels, are left alone. bfloat16 and float8, which ``.npz`` cannot name, are read
    from arrays of their width without a type, and written as float32, which holds each of their values.

    Raises:
        UsageError: The data do not fit the model's inputs.
        ModelError: The model cannot be run.
        OutputError: The outputs cannot be written.
    """
    with _place(options) as place, _session(model, options) as session:
        feeds = _read(options.data, session.inputs)
        with step("run"):
            start = time.perf_counter()
            outputs = {name: _storable(array) for name, array in session(feeds).items()}
            seconds = time.perf_counter() - start
        return {
            "schema": SCHEMA,
            "model": model,
            "provider": session.provider,
            "outputs": [_described(name, array) for name, array in outputs.items()],
            "files": [] if place is None else _written(place, outputs),
            "seconds": seconds,
        }


@contextmanager
def _place(options: RunOptions) -> Generator[Staging | None]:
    if options.output is None:
        yield None
        return
    if not options.output.endswith(".npz"):
        raise UsageError(f"--output {options.output}: expected a file name that ends in .npz")
    with staging(options.output, overwrite=options.overwrite) as place:
        yield place


def _session(model: str, options: RunOptions) -> Session:
    with step("load"):
        require_onnx(model)
        return Session(model, options.provider)


def _read(data: str, inputs: Mapping[str, Spec]) -> Arrays:
    """The arrays of the file that are inputs; a ``.npy`` file is the only input."""
    with opened(data) as found:
        if isinstance(found, np.ndarray):
            return {name: _typed(found, spec) for name, spec in _only(inputs, data).items()}
        missing = [name for name in inputs if name not in found]
        if missing:
            there = ", ".join(map(repr, found)) or "nothing"
            raise UsageError(f"{data} has no array {missing[0]!r}, an input of the model; it has {there}.")
        return {name: _typed(found[name], spec) for name, spec in inputs.items()}


def _only(inputs: Mapping[str, Spec], data: str) -> Mapping[str, Spec]:
    if len(inputs) != 1:
        names = ", ".join(map(repr, inputs)) or "none"
        raise UsageError(f"{data} is one array, but the model's inputs are {names}. Put one of each in a .npz file.")
    return inputs


def _typed(array: Array, spec: Spec) -> Array:
    """NumPy's format keeps the width of a bfloat16 array and forgets its type."""
    if array.dtype.kind != "V" or spec.dtype not in BITS:
        return array
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, spec.dtype))
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array


def _storable(array: Array) -> Array:
    if array.dtype.name in BITS:
        return array.astype(np.float32)
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def _written(place: Staging, outputs: Arrays) -> list[str]:
    with reporting(place.target):
        write_npz(place.folder / place.target.name, outputs)
    return [str(file) for file in place.publish()]


def _described(name: str, array: Array) -> Tensor:
    ranged = array.size > 0 and array.dtype.kind in "biuf"
    return {
        "name": name,
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "minimum": float(array.min()) if ranged else float("nan"),
        "maximum": float(array.max()) if ranged else float("nan"),
    }

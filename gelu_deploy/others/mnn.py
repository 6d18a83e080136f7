"""MNN on the CPU, from a conversion by its own converter. It knows nothing of GELU.

The converter is called below its Python wrapper: importing ``MNN.tools`` runs ``pip install`` and then sends what was
converted to a log server of its makers.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays

KINDS = {"float32": "float", "int32": "int", "int64": "int64", "uint8": "uint8"}
"""Types that its binding takes, and its names for them."""

LOGGED = re.compile(r"^\[[\d:]+\] .*?:\d+: ")


class Mnn:
    """One module; see :class:`gelu_deploy.others.Model`."""

    def __init__(self, file: Path, outputs: Sequence[str]) -> None:
        mnn = importlib.import_module("MNN")
        self.version = str(mnn.version())
        self._expr, self._nn = mnn.expr, mnn.nn
        self._file, self._outputs = file.with_suffix(".mnn"), list(outputs)
        said = _convert(file, self._file)
        if not self._file.is_file():
            raise RuntimeError(said)
        self._module: tuple[list[str], Any] | None = None

    def __call__(self, feeds: Mapping[str, Array]) -> Arrays:
        """Run once."""
        names, expr = list(feeds), self._expr
        if self._module is None or self._module[0] != names:
            self._module = names, self._nn.load_module_from_file(str(self._file), names, self._outputs)
        found = self._module[1].forward([self._variable(array) for array in feeds.values()])
        values = (np.array(expr.convert(value, expr.NCHW).read()) for value in found)
        return dict(zip(self._outputs, values, strict=True))

    def _variable(self, array: Array) -> Any:
        if array.dtype.name not in KINDS:
            raise TypeError(f"its Python binding takes no {array.dtype.name}, only {', '.join(KINDS)}")
        kind = getattr(self._expr, KINDS[array.dtype.name])
        return self._expr.const(array, list(array.shape), self._expr.NCHW, kind)


def _convert(file: Path, made: Path) -> str:
    """Let the converter work; the last line that it logs on stdout, which is all that it says of a failure."""
    log = made.with_suffix(".log")
    convert = importlib.import_module("_tools").mnnconvert
    stdout = os.dup(1)
    try:
        with log.open("wb") as kept:
            os.dup2(kept.fileno(), 1)
            convert(["mnnconvert", "-f", "ONNX", "--modelFile", str(file), "--MNNModel", str(made), "--bizCode", "MNN"])
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
    logged = [LOGGED.sub("", line) for line in log.read_text(errors="replace").splitlines() if LOGGED.match(line)]
    return logged[-1].strip() if logged else "its converter made no file of it"


def open_model(file: Path, outputs: Sequence[str]) -> Mnn:
    """See :class:`gelu_deploy.others.Opener`."""
    return Mnn(file, outputs)

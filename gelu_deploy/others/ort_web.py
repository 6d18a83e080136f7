"""ONNX Runtime Web, its WebAssembly backend, run by node with ``ort_web.mjs``. It knows nothing of GELU.

The npm package is looked for as node does it: in ``node_modules`` of the working directory or above, then in NODE_PATH.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gelu_deploy.errors import SetupError

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays

MISSING = (
    "the npm package onnxruntime-web was not found. In the working directory: npm install onnxruntime-web; "
    "or set NODE_PATH to the node_modules folder that has it."
)


class OrtWeb:
    """One session in node, until the next one is opened; see :class:`gelu_deploy.others.Model`."""

    def __init__(self, file: Path, outputs: Sequence[str]) -> None:
        self._folder, self._outputs = file.parent, list(outputs)
        self._node = _node()
        self.version = str(self._ask({"open": str(file)})["version"])

    def __call__(self, feeds: Mapping[str, Array]) -> Arrays:
        """Run once."""
        given = dict[str, Any]()
        for place, (name, array) in enumerate(feeds.items()):
            file = self._folder / f"in{place}.bin"
            array.tofile(file)
            given[name] = {"file": str(file), "dtype": array.dtype.name, "shape": array.shape}
        found = self._ask({"feeds": given, "folder": str(self._folder)})
        return {name: _array(found[name]) for name in self._outputs}

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps(request) + "\n")
        self._node.stdin.flush()
        line = self._node.stdout.readline()
        if not line:
            raise RuntimeError(f"node ended with {self._node.wait()} and no answer")
        said: dict[str, Any] = json.loads(line)
        if said.get("code") == "MODULE_NOT_FOUND":
            raise SetupError(MISSING)
        if "error" in said:
            raise RuntimeError(said["error"])
        return said


@cache
def _node() -> subprocess.Popen[str]:
    """The process of node, one for all models: it holds one session at a time."""
    program = shutil.which("node")
    if program is None:
        raise SetupError("node was not found. Install Node.js, then: npm install onnxruntime-web")
    words = [program, str(Path(__file__).with_suffix(".mjs"))]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)  # noqa: S603  # our own words


def _array(said: Mapping[str, Any]) -> Array:
    return np.fromfile(said["file"], said["dtype"]).reshape(said["shape"])


def open_model(file: Path, outputs: Sequence[str]) -> OrtWeb:
    """See :class:`gelu_deploy.others.Opener`."""
    return OrtWeb(file, outputs)

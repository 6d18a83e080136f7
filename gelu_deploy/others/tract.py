"""tract on the CPU; free axes stay free. It knows nothing of GELU."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays


class Tract:
    """One optimised model; see :class:`gelu_deploy.others.Model`."""

    def __init__(self, file: Path, outputs: Sequence[str]) -> None:
        tract = importlib.import_module("tract")
        self.version = str(tract.version())
        model = tract.onnx().load(file)
        self._inputs = [model.input_name(place) for place in range(model.input_count())]
        self._outputs = list(outputs)
        self._runnable = model.into_model().into_runnable()

    def __call__(self, feeds: Mapping[str, Array]) -> Arrays:
        """Run once."""
        found = self._runnable.run([feeds[name] for name in self._inputs])
        return {name: tensor.to_numpy() for name, tensor in zip(self._outputs, found, strict=True)}


def open_model(file: Path, outputs: Sequence[str]) -> Tract:
    """See :class:`gelu_deploy.others.Opener`."""
    return Tract(file, outputs)

"""Files of many variants of one model: a weight that several of them have is written once.

It knows graphs and files, and nothing of what the variants are for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import onnx_ir as ir

from gelu_deploy.artifact.seal import PREFIX
from gelu_deploy.artifact.staging import reporting
from gelu_deploy.graph.hollow import LARGE

WEIGHTS = "weights.data"

Place = tuple[int, int]
"""Where a weight begins in the shared file, and its length."""


class Shelf:
    """A folder of variants; beside them lies one file with the large weights of all.

    Args:
        folder: Where they go.
        lasting: Weights that most variants have, as the same objects, which outlive this: their content is read once.
    """

    def __init__(self, folder: Path, lasting: Iterable[ir.TensorProtocol | None] = ()) -> None:
        self._folder = folder
        self._lasting = dict[int, Place | None].fromkeys(id(tensor) for tensor in lasting)
        self._places = dict[bytes, Place]()
        self._end = 0

    def write(self, name: str, model: ir.Model) -> Path:
        """Write a model, whose large weights are in the shared file from then on. Raises OutputError."""
        for key in [key for key in model.metadata_props if key.startswith(PREFIX)]:
            del model.metadata_props[key]  # what a file of ours says of itself is not true of this one
        path = self._folder / name
        with reporting(path):
            for value in (value for graph in model.graphs() for value in graph.initializers.values()):
                tensor = value.const_value
                if tensor is not None and tensor.nbytes >= LARGE and tensor.dtype != ir.DataType.STRING:
                    value.const_value = self._shared(tensor, value.name or "")
            ir.save(model, path)
        return path

    def _shared(self, tensor: ir.TensorProtocol, name: str) -> ir.ExternalTensor:
        known = self._lasting.get(id(tensor))
        offset, length = self._placed(tensor) if known is None else known
        shape = ir.Shape(tensor.shape.numpy())
        return ir.ExternalTensor(WEIGHTS, offset, length, tensor.dtype, shape=shape, name=name, base_dir=self._folder)

    def _placed(self, tensor: ir.TensorProtocol) -> Place:
        """Where its content is in the file; it is appended if it is nowhere yet."""
        content = tensor.tobytes()
        digest = hashlib.sha256(content).digest()
        if digest not in self._places:
            with (self._folder / WEIGHTS).open("ab") as file:
                file.write(content)
            self._places[digest] = (self._end, len(content))
            self._end += len(content)
        if id(tensor) in self._lasting:
            self._lasting[id(tensor)] = self._places[digest]
        return self._places[digest]

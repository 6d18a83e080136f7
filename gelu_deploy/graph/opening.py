"""Opens an ONNX file as a hollow graph with shapes, whoever wrote it.

It runs nothing, and knows nothing of PyTorch files (``originals`` does).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from gelu_deploy.errors import ModelError
from gelu_deploy.graph import hollow, scopes
from gelu_deploy.graph.mend import mend

_SILENCE = logging.NullHandler()


class Opened(NamedTuple):
    """A hollow graph, the weights that are out of it, and what there is to say about the file."""

    model: ir.Model
    held: hollow.Held
    notes: tuple[str, ...] = ()


def read(path: str) -> ir.Model:
    """The model, its weights left in their files. Raises ModelError for anything that is no ONNX file."""
    try:
        return ir.load(path)
    except Exception as error:  # noqa: BLE001  # protobuf, missing weights, broken enums: all the same to the user
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{Path(path).name}: not a readable ONNX file ({first})") from None


def emptied(model: ir.Model) -> Opened:
    """Take the weights and what only the exporter's machine knew out of a model, and infer its shapes."""
    logging.getLogger("onnx_ir").addHandler(_SILENCE)  # it logs a traceback for shapes that cannot be inferred
    scopes.normalise(model)
    held = hollow.hold(model)
    return Opened(ShapeInferencePass()(model).model, held)


def open_graph(path: str) -> Opened:
    """An ONNX file as a hollow graph, mended where its meaning is plain. Raises ModelError."""
    model = read(path)
    notes = mend(model)
    return emptied(model)._replace(notes=tuple(notes))

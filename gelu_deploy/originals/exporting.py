"""From a PyTorch original to a graph: the exporter that was asked for, and the other one when it fails.

It knows exporters by name only, so that a user's own is an equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import onnx_ir as ir

from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.originals.original import Exporter, ExportRequest
from gelu_deploy.progress import step
from gelu_deploy.target import load

BUILT_IN = {name: f"gelu_deploy.exporters.{name}:export" for name in ("dynamo", "torchscript")}


class Exported(NamedTuple):
    """A graph, the exporter that made it, and why not the one that was asked for."""

    model: ir.Model
    exporter: str
    notes: tuple[str, ...] = ()


def exported(original: Any, request: ExportRequest, wanted: str) -> Exported:
    """The graph of a PyTorch original.

    Args:
        original: What the loaders return: ``exporters`` names those that apply, ``traceable`` gives each its module.
        request: Operator set, names, free axes.
        wanted: ``--exporter``.

    Raises:
        UsageError: The exporter does not apply to this kind of file.
        ModelError: None of them could; the message has each one's reason.
    """
    names = _order(original.exporters, wanted)
    failures = list[str]()
    for name in names:
        exporter: Exporter = load(BUILT_IN.get(name, name))
        try:
            with step("export"):
                model = exporter(original.traceable(name, request.output_names), original.tensors(), request)
            _check_axes(model, request)
        except ModelError as error:
            failures.append(str(error))
            continue
        return Exported(model, name, tuple(f"{reason}; exported with {name} instead" for reason in failures))
    raise ModelError("; ".join(failures))


def _order(applicable: Sequence[str], wanted: str) -> list[str]:
    if wanted not in BUILT_IN:
        return [wanted]
    if wanted in applicable:
        return [wanted, *(name for name in applicable if name != wanted)]
    if len(applicable) == 1 and wanted == "dynamo":  # the default, not a wish
        return list(applicable)
    raise UsageError(f"--exporter {wanted} cannot take this kind of file; --exporter {applicable[0]} can")


def _check_axes(model: ir.Model, request: ExportRequest) -> None:
    """An axis that was to be free and came out fixed is an error here, not a surprise in production."""
    shapes = {value.name: value.shape for value in model.graph.inputs}
    for name, axes in request.dynamic.items():
        shape = shapes.get(name)
        for axis, label in axes.items():
            if shape is not None and isinstance(shape[axis], int):
                raise ModelError(f"axis {axis} of {name} ({label}) came out fixed at {shape[axis]}")


def names(given: Sequence[str], own: Sequence[str], flag: str) -> tuple[str, ...]:
    """The user's names for inputs or outputs, else the network's. Raises UsageError when their number is wrong."""
    if given and len(given) != len(own):
        raise UsageError(f"{flag}: got {len(given)} names for {len(own)}: {', '.join(own)}")
    return tuple(given or own)

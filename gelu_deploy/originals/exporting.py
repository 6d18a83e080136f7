"""From a PyTorch original to a graph: the exporter that was asked for, and the other one when it fails.

It knows exporters by name only, so that a user's own is an equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import onnx_ir as ir

from gelu_deploy.errors import GeluDeployError, ModelError, UsageError
from gelu_deploy.originals.original import NOTES, Exporter, ExportRequest
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
    failures = [f"{wanted} cannot take this kind of file"] if wanted not in names else []
    for name in names:
        exporter: Exporter = load(BUILT_IN.get(name, name))
        try:
            with step("export"):
                model = _run(exporter, name, original, request)
            _check_axes(model, request)
            keep_apart(model)
        except ModelError as error:
            failures.append(str(error))
            continue
        notes = [f"{reason}; exported with {name} instead" for reason in failures]
        return Exported(model, name, (*notes, *model.meta.get(NOTES, ())))
    raise ModelError("; ".join(failures))


def _run(exporter: Exporter, name: str, original: Any, request: ExportRequest) -> ir.Model:
    """What the exporter makes of it. Whatever a user's own exporter does wrong is a ModelError that names it."""
    traceable, tensors = original.traceable(name, request.output_names), original.tensors()
    if name in BUILT_IN:
        return exporter(traceable, tensors, request)
    try:
        model: Any = exporter(traceable, tensors, request)
    except GeluDeployError:
        raise
    except Exception as error:
        raise ModelError(f"--exporter {name} failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, ir.Model):
        raise ModelError(f"--exporter {name} returned a {type(model).__name__}; expected an onnx_ir.Model")
    return model


def _order(applicable: Sequence[str], wanted: str) -> list[str]:
    if wanted not in BUILT_IN:
        if ":" not in wanted:
            raise UsageError(f"--exporter {wanted}: expected {', '.join(BUILT_IN)}, or FILE.py:NAME of your own")
        return [wanted]
    if wanted in applicable:
        return [wanted, *(name for name in applicable if name != wanted)]
    if len(applicable) == 1 and wanted == "dynamo":  # the default, not a wish
        return list(applicable)
    raise UsageError(f"--exporter {wanted} cannot take this kind of file; --exporter {applicable[0]} can")


def keep_apart(model: ir.Model) -> None:
    """Give inner values that are called like an input or an output another name, in place."""
    ends = [*model.graph.inputs, *model.graph.outputs]
    taken = {value.name for value in ends}
    inner = [value for node in model.graph.all_nodes() for value in node.outputs if not any(value is e for e in ends)]
    for value in inner:
        if value.name in taken:
            value.name = f"{value.name}.inner"


def _check_axes(model: ir.Model, request: ExportRequest) -> None:
    """An axis that was to be free and came out fixed is an error here, not a surprise in production."""
    shapes = {value.name: value.shape for value in model.graph.inputs}
    for name, axes in request.dynamic.items():
        shape = shapes.get(name)
        for axis, label in axes.items():
            if shape is not None and isinstance(shape[axis], int):
                raise ModelError(f"axis {axis} of {name} ({label}) came out fixed at {shape[axis]}")

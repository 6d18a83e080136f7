"""``torch.onnx.export(dynamo=True)``: the default way from a module to a graph.

It never asks for an operator set below 18: torch's own lowering drops every module scope, writes invalid Split nodes
and may silently stay at 18. The caller converts what this returns. It knows nothing of GELU.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import onnx_ir as ir
import torch

from gelu_deploy.errors import ModelError
from gelu_deploy.originals.original import ExportRequest

OLDEST, NEWEST, LOWERED = 18, 23, 20
"""Operator sets that it writes itself; for older ones it writes ``LOWERED``."""


def export(module: Any, inputs: tuple[torch.Tensor, ...], request: ExportRequest, /) -> ir.Model:
    """The graph of ``module(*inputs)``, at the nearest operator set that torch writes well.

    ``module`` is an ``nn.Module`` or an ``ExportedProgram``, whose free axes are its own. Raises ModelError with
    torch's reason.
    """
    opset = LOWERED if request.opset < OLDEST else min(request.opset, NEWEST)
    program = isinstance(module, torch.export.ExportedProgram)
    shapes = tuple(dict(request.dynamic.get(name, {})) or None for name in request.input_names)
    try:
        with _quiet():
            exported = torch.onnx.export(
                module,
                () if program else inputs,
                dynamo=True,
                opset_version=opset,
                dynamic_shapes=None if program else (shapes,),
                input_names=list(request.input_names),
                output_names=list(request.output_names),
                verbose=False,
            )
    except Exception as error:  # torch raises whatever the traced code raises
        raise ModelError(f"torch.onnx (dynamo) could not export it: {reason(error)}") from error
    assert exported is not None
    model: ir.Model = exported.model
    return model


def reason(error: BaseException) -> str:
    """The first telling line of what torch raised, from the innermost cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back torch's own notices: LeafSpec's deprecation, missing torchvision, the report of its steps."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):  # it prints the graph that it gave up
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)

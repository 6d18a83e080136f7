"""The built-in exporters as a user's own: one export per network, exporter and operator set in a test session."""

from __future__ import annotations

import hashlib
from typing import Any

import onnx_ir as ir
import torch

from gelu_deploy.originals.original import Exporter, ExportRequest
from gelu_deploy.target import load

_MADE: dict[str, ir.Model] = {}


def dynamo(module: Any, inputs: tuple[Any, ...], request: ExportRequest) -> ir.Model:
    """As ``--exporter dynamo``."""
    return _once("dynamo", module, inputs, request)


def torchscript(module: Any, inputs: tuple[Any, ...], request: ExportRequest) -> ir.Model:
    """As ``--exporter torchscript``."""
    return _once("torchscript", module, inputs, request)


def _once(name: str, module: Any, inputs: tuple[Any, ...], request: ExportRequest) -> ir.Model:
    exporter: Exporter = load(f"gelu_deploy.exporters.{name}:export")
    oldest, newest, lowered = (18, 23, 20) if name == "dynamo" else (9, 20, 9)
    opset = lowered if request.opset < oldest else min(request.opset, newest)
    held = b"".join(weight.detach().reshape(-1).view(torch.uint8).numpy() for weight in module.state_dict().values())
    weights = hashlib.sha256(held).hexdigest()
    key = repr((name, opset, str(module), weights, request.input_names, request.output_names, request.dynamic))
    if key not in _MADE:
        _MADE[key] = exporter(module, inputs, request)
    return _MADE[key].clone()

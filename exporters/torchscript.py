"""``torch.onnx.export(dynamo=False)``: the TorchScript exporter, for what the other one cannot trace.

It knows nothing of GELU.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from gelu_deploy.errors import ModelError
from gelu_deploy.originals.original import ExportRequest

from .dynamo import reason

OLDEST, NEWEST = 9, 20
"""Operator sets that it writes."""


def export(module: Any, inputs: tuple[torch.Tensor, ...], request: ExportRequest, /) -> ir.Model:
    """The graph of ``module(*inputs)``, a module or a ScriptModule, at the nearest operator set that it writes.

    Raises ModelError with torch's reason.
    """
    opset = max(OLDEST, min(request.opset, NEWEST))
    with tempfile.TemporaryDirectory(prefix="gelu_deploy-") as folder:
        path = Path(folder) / "model.onnx"
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")  # it is deprecated, and says so at every call
                torch.onnx.export(
                    module,
                    inputs,
                    str(path),
                    dynamo=False,
                    opset_version=opset,
                    input_names=list(request.input_names),
                    output_names=list(request.output_names),
                    dynamic_axes={name: dict(axes) for name, axes in request.dynamic.items() if axes},
                    verbose=False,
                )
        except Exception as error:  # torch raises whatever the traced code raises
            raise ModelError(f"torch.onnx (torchscript) could not export it: {reason(error)}") from error
        model = ir.load(path)
        ir.external_data.load_to_model(model)
        return model

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
from torch.jit._trace import TracerWarning

from gelu_deploy.errors import ModelError
from gelu_deploy.originals.original import NOTES, ExportRequest

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
            with warnings.catch_warnings(record=True) as caught, torch.no_grad():
                torch._C._jit_set_onnx_log_output_stream("stderr")  # it logs what it cannot write
                warnings.simplefilter("ignore")  # it is deprecated, and says so at every call
                warnings.simplefilter("always", TracerWarning)
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
        model.meta[NOTES] = _one_way(caught)
        return model


def _one_way(caught: list[warnings.WarningMessage]) -> list[str]:
    """A note where a tensor decided what forward does: parity then holds for inputs that go the same way only."""
    told = [one for one in caught if "Python boolean" in str(one.message)]
    places = list(dict.fromkeys(f"{Path(one.filename).name}:{one.lineno}" for one in told))
    if not places:
        return []
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    where = f"where a tensor decides what forward does ({', '.join(places[:3])}{more})"
    return [f"the trace went one way {where}: inputs that need the other way get wrong answers"]

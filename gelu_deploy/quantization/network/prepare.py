"""Makes any ONNX file ready for INT8: every GELU one node, every layer an operator that has an integer kernel.

What the network computes stays the same. It runs nothing, and knows neither data nor ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import (
    IdentityEliminationPass,
    InlinePass,
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
    ShapeInferencePass,
)

from gelu_deploy.errors import ModelError
from gelu_deploy.graph import hollow
from gelu_deploy.graph.gemm import Gemms
from gelu_deploy.graph.masks import FiniteMasks
from gelu_deploy.graph.mend import mend
from gelu_deploy.graph.naming import Names
from gelu_deploy.graph.opening import emptied, read
from gelu_deploy.graph.opset import Convert
from gelu_deploy.graph.passes import Pass
from gelu_deploy.graph.patches import Patches
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite
from gelu_deploy.graph.simplify import Simplify
from gelu_deploy.quantization.network import Network
from gelu_deploy.quantization.network.layers import layers

OPSET = 20
"""The first with ``Gelu``."""
IR_VERSION = 9
"""What came with it; up to 3 every initializer is an input too."""


def prepared(path: str, *, guarded: bool = False) -> Network:
    """The float network of an ONNX file, ready to be calibrated and quantized.

    Args:
        path: The file.
        guarded: Whether masks of −inf become finite where a guard makes a row that is masked everywhere 0, too: that
            row gives the mean then; see :class:`FiniteMasks`.

    Raises:
        ModelError: The file is no ONNX model, cannot be written for opset 20, or has nothing to quantize.
    """
    model = read(path)
    notes = [*mend(model), *_constants(model)]
    opened = emptied(model)
    model = opened.model
    if model.opset_imports.get("", 0) < OPSET:
        model = _applied([Convert(OPSET)], model, notes)
    model = _applied([Rewrite(find(model).sites, opset=OPSET), Simplify()], model, notes)
    model = ShapeInferencePass()(model).model
    hollow.put_back(model, opened.held)
    _constants(model)
    model = _applied([FiniteMasks(guarded), Patches(), Gemms(), Names()], model, notes)
    ready = emptied(model)
    found, floats = layers(ready.model)
    if not found:
        raise ModelError(_nothing(path, floats))
    return Network(ready.model, ready.held, found, [*notes, *floats])


def _applied(passes: Sequence[Pass], model: ir.Model, notes: list[str]) -> ir.Model:
    for one in passes:
        result = one.apply(model)
        model = result.model
        notes += result.notes
    return model


def _constants(model: ir.Model) -> list[str]:
    """Make every constant an initializer that its readers read themselves and no caller can replace, in place.

    What stands in functions is put where they are called, so that it sees the constants, too.
    """
    notes = list[str]()
    InlinePass()(model)
    if RemoveInitializersFromInputsPass()(model).modified and (model.ir_version or 0) > 3:
        notes.append("constants that a caller could replace are fixed now")
    model.ir_version = max(model.ir_version or 0, IR_VERSION)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    IdentityEliminationPass()(model)
    return notes


def _nothing(path: str, notes: Sequence[str]) -> str:
    why = f" ({notes[0]}{f', and {len(notes) - 1} more' if len(notes) > 1 else ''})" if notes else ""
    return (
        f"{Path(path).name}: nothing to quantize: no Conv, Gemm or MatMul with a constant float32 weight{why}; "
        "give the float model with its weights in it"
    )

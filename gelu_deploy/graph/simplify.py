"""onnxsim behind a guard: its result is used only if inputs, outputs and GELUs are still what they were.

It works on hollow graphs; whether answers are unchanged is judged by the caller, who has a runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from gelu_deploy.graph import scopes
from gelu_deploy.graph.passes import Result
from gelu_deploy.graph.recognize import Findings, find

SKIPPED = ["fuse_gelu"]
"""It would undo a spelling that was asked for (gelu.md: onnxsim rebuilds ``Gelu`` from the erf chain at opset 20)."""

FUSED = {
    "LayerNormalization": "fuse_layer_norm",
    "RMSNormalization": "fuse_rms_norm",
    "RotaryEmbedding": "fuse_rope",
    "Attention": "fuse_attention",
}
"""Operators that it makes of several, by what makes them."""


@dataclass(frozen=True)
class Simplify:
    """onnxsim on a hollow model; the result is a new model, or the same one when the guard refuses.

    Attributes:
        apart: Operators of ``FUSED`` that it is not to make.
    """

    apart: tuple[str, ...] = ()

    def apply(self, model: ir.Model) -> Result:
        """Never raises for what onnxsim does: a failure is a note and the model goes on as it was."""
        before = find(model)
        modules = scopes.remember(model)
        try:
            result = _simplified(model, self.apart)
            if _domains(result) - _domains(model):  # attention with small weights becomes one of com.microsoft's
                result = _simplified(model, tuple(FUSED))
        except Exception as error:  # noqa: BLE001  # whatever the simplifier meets, the unsimplified model is still good
            return Result(model, modified=False, notes=(f"not simplified: onnxsim: {_first_line(error)}",))
        refusal = _changed(model, result) or _lost(before, find(result))
        if refusal:
            return Result(model, modified=False, notes=(f"not simplified: onnxsim changed {refusal}",))
        modified = ir.to_proto(result) != ir.to_proto(model)
        scopes.restore(result, modules)
        removed = model.graph.num_nodes() - result.graph.num_nodes()
        notes = (f"onnxsim removed {removed} operator{'s' * (removed > 1)}",) if removed > 0 else ()
        return Result(result, modified=modified, notes=notes)


def _simplified(model: ir.Model, apart: tuple[str, ...]) -> ir.Model:
    import onnxsim

    made, _ = onnxsim.simplify(ir.to_proto(model), skipped_optimizers=[*SKIPPED, *(FUSED[op] for op in apart)])
    result: ir.Model = ir.from_proto(made)
    return result


def _domains(model: ir.Model) -> set[str]:
    return {node.domain for node in model.graph.all_nodes()}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:200]


def _changed(before: ir.Model, after: ir.Model) -> str:
    """What differs between the signatures of two models, ``""`` if nothing."""
    for name in ("inputs", "outputs"):
        old, new = getattr(before.graph, name), getattr(after.graph, name)
        if [(v.name, v.dtype) for v in old] != [(v.name, v.dtype) for v in new]:
            return f"the {name}"
    if before.opset_imports.get("") != after.opset_imports.get(""):
        return "the opset"
    return ""


def _lost(before: Findings, after: Findings) -> str:
    """Which GELU is no longer there, ``""`` if all are, in the same form and spelling."""

    def written(findings: Findings) -> list[tuple[str, str, float | None]]:
        return sorted((site.form, site.spelling, site.alpha or 0.0) for site in findings.sites)

    old, new = written(before), written(after)
    return "" if old == new else f"the GELUs: {len(old)} before, {len(new)} after or in another form"

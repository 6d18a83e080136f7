"""``inspect``: every GELU of any ONNX file, and the kernel that the runtime makes of it."""

from __future__ import annotations

from gelu_deploy import artifact, sites
from gelu_deploy.graph.opening import open_graph
from gelu_deploy.graph.recognize import find
from gelu_deploy.options import InspectOptions
from gelu_deploy.progress import step
from gelu_deploy.results import InspectResult
from gelu_deploy.source import require_onnx

SCHEMA = "gelu-deploy/inspect/1"


def inspect(model: str, options: InspectOptions) -> InspectResult:
    """The sites of an ONNX file, ours or not; the file is not run.

    Raises:
        ModelError: It is no ONNX file, a damaged one of ours, or the runtime refuses it.
        SetupError: The provider cannot be had.
    """
    with step("read"):
        require_onnx(model)
        artifact.verify(model)
        graph = open_graph(model)
        findings = find(graph.model)
    with step("load in the runtime"):
        kernels = sites.kernels(graph.model, options.provider)
    return InspectResult(
        schema=SCHEMA,
        model=model,
        opset=graph.model.opset_imports.get("", 0),
        provider=options.provider,
        sites=[sites.row(site, kernels) for site in findings.sites],
        near_misses=sites.near_misses(findings.misses),
        notes=list(graph.notes),
    )

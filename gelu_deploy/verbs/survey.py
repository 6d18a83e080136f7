"""``survey``: what flows through each GELU and ReLU of a model, ONNX or PyTorch, on real data.

A PyTorch network is exported in memory as it stands; nothing is rewritten and nothing is written.
"""

from __future__ import annotations

from dataclasses import replace

from gelu_deploy import artifact
from gelu_deploy.data import open_data
from gelu_deploy.flow import Survey, points
from gelu_deploy.graph import hollow
from gelu_deploy.graph.opening import Opened, emptied, open_graph
from gelu_deploy.options import SourceOptions, SurveyOptions
from gelu_deploy.originals import open_original
from gelu_deploy.originals.cases import BATCH, free_axes, refused
from gelu_deploy.originals.exporting import exported
from gelu_deploy.originals.original import ExportRequest
from gelu_deploy.progress import step
from gelu_deploy.results import SurveyResult
from gelu_deploy.source import Kind, identify

SCHEMA = "gelu-deploy/survey/1"
OPSET = 20
EXPORTER = "dynamo"


def survey(model: object, options: SurveyOptions) -> SurveyResult:
    """Run all of the data and count what comes by; see :class:`gelu_deploy.results.SurveyedSite`.

    A PyTorch network's example inputs are the first rows of an ``.npz``; with other data it needs its own, or
    ``--input``.

    Raises:
        UsageError: The data are none, or do not fit the model's inputs.
        ModelError: It is no model, or the runtime refuses it.
        GeluDeployError: Whatever keeps a PyTorch source from being opened.
    """
    source, graph = _opened(model, options)
    places, hidden = points(graph.model)
    notes = [*graph.notes, *([f"GELUs in functions or bodies cannot be looked at: {hidden} of them"] if hidden else [])]
    with step("load in the runtime"):
        run = Survey(graph.model, hollow.arrays(graph.held), places, options.provider)
    data, rows = open_data(options.data, run.inputs, batch=options.batch), 0
    with run, step("run"):
        for batch in data:
            run.add(batch.inputs)
            rows += batch.rows
        return SurveyResult(
            schema=SCHEMA,
            source=source,
            data=data.name,
            rows=rows,
            provider=run.provider,
            sites=run.sites(),
            notes=[*notes, *data.notes],
        )


def _opened(model: object, options: SurveyOptions) -> tuple[str, Opened]:
    """One line that says what the model is, and its graph."""
    if isinstance(model, str) and (source := identify(model)).kind == Kind.ONNX:
        with step("read"):
            artifact.verify(source.path)
            return source.line, open_graph(source.path)
    return _exported(model, options)


def _exported(model: object, options: SurveyOptions) -> tuple[str, Opened]:
    source: SourceOptions = options
    examples = options.data if options.data.endswith(".npz") else None
    with step("load"):
        original, line = open_original(model, replace(source, data=examples))
    with step("run the original"):
        original.run(original.examples)
        axes = free_axes(original.examples, (), batch=True)
        reason = refused(original, axes)
    inputs = tuple(original.examples)
    outputs = tuple(f"{name}_out" if name in inputs else name for name in original.output_names)
    request = ExportRequest(OPSET, inputs, outputs, {} if reason else axes)
    made = exported(original, request, EXPORTER)
    fixed = [f"the {BATCH} stays fixed: {reason}"] if reason else []
    return line, emptied(made.model)._replace(notes=(*original.notes, *fixed, *made.notes))

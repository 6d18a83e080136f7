"""``export``: whatever a person calls ``model.pt`` becomes an ONNX file that is proved to compute the same.

It joins the parts (original, exporter, pipeline, artifact, session, proof) and measures nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from gelu_deploy import artifact, proof, provenance, runtime, sites
from gelu_deploy.arrays import describe
from gelu_deploy.artifact.golden import Case
from gelu_deploy.choosing import choice
from gelu_deploy.choosing.candidates import KEEP
from gelu_deploy.choosing.choice import AUTO
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.gelu import FORMS
from gelu_deploy.graph.judge import NEAR
from gelu_deploy.graph.recognize import Findings
from gelu_deploy.options import ExportOptions
from gelu_deploy.originals import naming, open_original
from gelu_deploy.originals.cases import BATCH, Axes, free_axes, prove, refused
from gelu_deploy.originals.exporting import Exported, exported, keep_apart
from gelu_deploy.originals.naming import Names
from gelu_deploy.originals.onnx_file import OnnxOriginal
from gelu_deploy.originals.original import ExportRequest, Original
from gelu_deploy.parity import TOLERANCES, Limits
from gelu_deploy.pipeline import Pipeline
from gelu_deploy.progress import recorded, step
from gelu_deploy.results import ChoiceResult, ExportResult, Stage
from gelu_deploy.runtime.providers import choose
from gelu_deploy.runtime.settings import Settings
from gelu_deploy.source import Kind, identify
from gelu_deploy.targets import Target, named
from gelu_deploy.verbs.tuned import tuned

SCHEMA = "gelu-deploy/export/1"
DEFAULT_OPSET = 20
OLDEST_OPSET = 9
DEFAULT_OUTPUT = "model.onnx"
IGNORED = "not inputs, ignored"
"""How a note on ``--data`` begins that is not true where labels are used."""


def export(model: object, options: ExportOptions) -> ExportResult:
    """Export, rewrite, simplify, prove and write; see :class:`ExportOptions`.

    Nothing is written when the verdict is ``fail``; with ``--no-verify`` there is no verdict.

    Raises:
        GeluDeployError: Any of the tree; a failed verdict is a result.
    """
    limits = Limits.parse(options.atol, options.rtol)
    _refuse_hopeless(options)
    output = _output(model, options)
    with recorded() as seconds, artifact.stage(output, overwrite=_may_replace(options)) as staged:
        with step("load"):
            original, line = open_original(model, options)
        with step("run the original"):
            axes, notes = _axes(original, options)
            proved = prove(original, axes)  # only a run tells how many outputs there are
            called = naming.named(original, options.input_names, options.output_names)
            cases = naming.renamed(proved, original, called)
            limits.for_outputs(cases[0].outputs)
        graph = _exported(original, called, options, axes)
        with _advised(original, cases):
            pipeline = Pipeline.start(graph.model, cases, limits, measured=options.verify)
            target, opset = named(options.target), _opset(original, graph.model, options)
            found = _chosen(original, called, pipeline, opset, staged.model.parent, options)
            asked = replace(options, form=KEEP) if options.form == AUTO else options
            findings = pipeline.run(asked, opset, target)
            result = _result(pipeline, findings, graph, options)
        result["source"] = line
        own = [note for note in original.notes if options.metric is None or not note.startswith(IGNORED)]
        result["notes"] = [*own, *notes, *graph.notes, *pipeline.notes, *_untried(target)]
        if target is not None:
            result["target"] = target.name
        if found is not None:
            result["choice"] = found
        _finish(pipeline, result, staged, provenance.describe(result, options, model), options)
        result["seconds"] = seconds
        if result["verdict"] != "fail" and not options.dry_run:
            with step("write"):
                result["files"] = [_as_given(path, output) for path in staged.publish(result)]
    return result


def _refuse_hopeless(options: ExportOptions) -> None:
    """What cannot be had whatever the model is, before minutes are spent on it. Raises UsageError, SetupError."""
    from onnx import __version__, defs

    choose(options.provider)
    if options.form not in {KEEP, AUTO, *FORMS}:
        raise UsageError(f"--form {options.form}: there is no such form; there are keep, auto, {', '.join(FORMS)}")
    if not 0 <= options.accept_error < NEAR:
        raise UsageError(f"--accept-error {options.accept_error:g}: expected a number from 0 to {NEAR}")
    newest = defs.onnx_opset_version()
    if options.opset is not None and not OLDEST_OPSET <= options.opset <= newest:
        raise UsageError(
            f"--opset {options.opset}: expected {OLDEST_OPSET} (the first with Erf) to {newest} (the last that "
            f"onnx {__version__} knows)"
        )
    target = named(options.target)
    if target is not None and options.opset is not None and options.opset > target.newest:
        source = target.sources["opset"]
        raise UsageError(f"--opset {options.opset}: {target.name} takes {target.newest} at most ({source})")
    if options.max_form_error is not None and not 0 <= options.max_form_error < float("inf"):
        raise UsageError(f"--max-form-error {options.max_form_error:g}: expected a number from 0 on, such as 1e-3")
    choice.refuse(options)
    if options.tune and not options.verify:
        raise UsageError("--tune and --no-verify: settings are kept only where answers stay; leave one of them out")


def _output(model: object, options: ExportOptions) -> str:
    source = identify(model) if isinstance(model, str) else None
    if options.output is None and source is not None and source.kind == Kind.ONNX:
        raise UsageError(f"{source.path} is ONNX already: say with -o OUT.onnx where the new file goes")
    if options.output is not None and not options.output.endswith(".onnx"):
        raise UsageError(f"--output {options.output!r}: expected a file name that ends in .onnx")
    return options.output or DEFAULT_OUTPUT


def _untried(target: Target | None) -> list[str]:
    if target is None or target.tried:
        return []
    return [f"target {target.name} was not tried here; docs/targets.md says where its operators are listed"]


def _as_given(path: Path, output: str) -> str:
    """The path of a written file in the way in which the user named the output."""
    short = Path(output).with_name(path.name)
    return str(short if short.exists() and short.samefile(path) else path)


def _may_replace(options: ExportOptions) -> bool:
    return options.overwrite or options.dry_run


def _wanted_opset(options: ExportOptions) -> int:
    """The opset that a network of PyTorch's is written in."""
    target = named(options.target)
    return options.opset or (DEFAULT_OPSET if target is None else target.opset)


def _opset(original: Original, model: ir.Model, options: ExportOptions) -> int:
    """The opset to write: what was asked for, else an ONNX file's own as far as the target takes it."""
    if options.opset or not isinstance(original, OnnxOriginal):
        return _wanted_opset(options)
    target, own = named(options.target), model.opset_imports.get("", DEFAULT_OPSET)
    return own if target is None else min(own, target.newest)


def _chosen(
    original: Original, called: Names, pipeline: Pipeline, opset: int, place: Path, options: ExportOptions
) -> ChoiceResult | None:
    """With ``--form auto``, what was found to be fastest; the pipeline writes it."""
    if options.form != AUTO:
        return None
    names = dict(zip(original.examples, called.inputs, strict=True))
    return choice.choose(choice.Question(pipeline, options, opset, named(options.target), names, place))


def _axes(original: Original, options: ExportOptions) -> tuple[Axes, list[str]]:
    """The free axes: a file's own, else the batch (unless the network refuses) and what was asked for."""
    if original.axes is not None:
        return original.axes, []
    axes = free_axes(original.examples, options.dynamic, batch=options.batch)
    reason = refused(original, axes) if options.batch else ""
    if not reason:
        return axes, []
    fixed = {name: {a: label for a, label in free.items() if label != BATCH} for name, free in axes.items()}
    return fixed, [f"the batch stays fixed: {reason}"]


def _exported(original: Original, called: Names, options: ExportOptions, axes: Axes) -> Exported:
    inputs, outputs = called
    if not isinstance(original, OnnxOriginal):
        free = {new: axes.get(old, {}) for new, old in zip(inputs, original.examples, strict=True)}
        request = ExportRequest(_wanted_opset(options), inputs, outputs, free)
        return exported(original, request, options.exporter)
    values = [value for value in original.model.graph.inputs if value.name in original.examples]
    for value, name in zip([*values, *original.model.graph.outputs], [*inputs, *outputs], strict=True):
        value.name = name
    keep_apart(original.model)
    return Exported(original.model, "none needed")


@contextmanager
def _advised(original: Original, cases: Sequence[Case]) -> Generator[None]:
    """A network of PyTorch's that is refused, and computes in other than float32, can be exported in float32."""
    try:
        yield
    except ModelError as error:
        arrays = [array for case in cases for array in (*case.inputs.values(), *case.outputs.values())]
        floats = sorted({array.dtype.name for array in arrays} & set(TOLERANCES) - {"float32"})
        if isinstance(original, OnnxOriginal) or not floats:
            raise
        raise ModelError(
            f"{error} The network computes in {' and '.join(floats)}, which not every operator can here; "
            "--dtype float32 exports it in float32."
        ) from error


def _result(pipeline: Pipeline, findings: Findings, graph: Exported, options: ExportOptions) -> ExportResult:
    """Everything that is known before the file is judged."""
    with step("load in the runtime"):
        index = sites.kernels(pipeline.model, options.provider)
    rows = sites.rewritten([sites.row(site, index) for site in findings.sites], pipeline.plans)
    held = pipeline.held.names
    return ExportResult(
        schema=SCHEMA,
        source="",
        notes=[],
        exporter=graph.exporter,
        opset=pipeline.model.opset_imports[""],
        provider=options.provider,
        inputs={v.name or "": _described(v) for v in pipeline.model.graph.inputs if v.name not in held},
        outputs={v.name or "": _described(v) for v in pipeline.model.graph.outputs},
        cases=[{name: describe(array) for name, array in case.inputs.items()} for case in pipeline.cases],
        sites=rows,
        near_misses=sites.near_misses(findings.misses),
        stages=pipeline.stages,
        verdict="not verified",
        reason="",
        files=[],
        seconds={},
    )


def _described(value: ir.Value) -> str:
    """``batch x 3 x 224 x 224 float32``."""
    shape = " x ".join(str(size) for size in value.shape.dims) if value.shape is not None else "any shape"
    return f"{shape or 'scalar'} {value.dtype.numpy().name if value.dtype is not None else 'any type'}"


def _finish(
    pipeline: Pipeline,
    result: ExportResult,
    staged: artifact.Stage,
    described: Mapping[str, Any],
    options: ExportOptions,
) -> None:
    """Write the file where nobody sees it yet; prove it and its sites in the runtime; seal the verdict into it."""
    last = list[Stage]()
    if options.verify and result["sites"]:
        result["notes"] += proof.unseen(pipeline.model, result["sites"])
        with step("run"):
            last.append(
                proof.site_parity(pipeline.model, pipeline.weights, result["sites"], pipeline.cases, options.provider)
            )
    with step("write"):
        whole = pipeline.whole()
        path = staged.write(whole, described, cases=pipeline.cases, threshold=options.external_data_threshold)
    with step("load in the runtime"):
        session = runtime.Session(path, options.provider)
    result["provider"] = session.provider
    if not options.verify:
        return
    with session, step("run"):
        answers = [session(case.inputs) for case in pipeline.cases]
    result["stages"] += [proof.outputs("runtime", answers, pipeline.cases, pipeline.limits), *last]
    result["verdict"], result["reason"] = _verdict(result["stages"], options)
    staged.amend({"verdict": {"verdict": result["verdict"], "stages": result["stages"]}})
    if options.tune and result["verdict"] == "pass":
        with step("tune"):
            result["runtime"] = tuned(staged, pipeline.cases[0].inputs, _good(path, pipeline, result), session.provider)


def _good(path: Path, pipeline: Pipeline, result: ExportResult) -> Callable[[Settings], bool]:
    """Whether settings of the runtime keep every answer within the limits that the file was proved by."""

    def good(settings: Settings) -> bool:
        with runtime.Session(path, result["provider"], settings=settings) as session:
            answers = [session(case.inputs) for case in pipeline.cases]
        return proof.outputs("runtime", answers, pipeline.cases, pipeline.limits)["passed"]

    return good


def _verdict(stages: Sequence[Stage], options: ExportOptions) -> tuple[str, str]:
    form = next((stage for stage in stages if stage["name"].startswith("form ")), None)
    if form and options.max_form_error is not None and form["max_abs"] > options.max_form_error:
        return "fail", (
            f"{form['name']} moves {form['worst']} by {form['max_abs']:.2e}, "
            f"more than --max-form-error {options.max_form_error:g}"
        )
    return proof.verdict(stages)

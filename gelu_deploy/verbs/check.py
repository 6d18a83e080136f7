"""``check``: a finished file proved again, from the golden data saved with it or against the original itself.

With golden data it needs numpy and onnxruntime alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from gelu_deploy import artifact, proof, runtime, sites
from gelu_deploy.artifact.golden import Case
from gelu_deploy.errors import UsageError
from gelu_deploy.graph import hollow
from gelu_deploy.graph.opening import open_graph
from gelu_deploy.graph.recognize import find
from gelu_deploy.options import CheckOptions
from gelu_deploy.originals import open_original
from gelu_deploy.originals.original import Original
from gelu_deploy.parity import Limits
from gelu_deploy.progress import step
from gelu_deploy.results import CheckResult, SiteResult, Stage
from gelu_deploy.source import require_onnx

SCHEMA = "gelu-deploy/check/1"


def check(model: str, options: CheckOptions) -> CheckResult:
    """Outputs and every site, in the runtime, against what the original answered.

    Raises:
        UsageError: The file has no golden data and ``--against`` was not given, or its inputs do not fit.
        ModelError: A file of the artifact is damaged, or it is no ONNX file.
    """
    limits = Limits.parse(options.atol, options.rtol)
    with step("read"):
        require_onnx(model)
        described = artifact.verify(model)
        saved = artifact.cases(model)
        graph = open_graph(model)
    with step("load in the runtime"):
        index = sites.kernels(graph.model, options.provider)
        session = runtime.Session(model, options.provider)
    limits.for_outputs(session.outputs)
    recorded = cast("list[SiteResult]", described.get("sites", []))
    findings = find(graph.model)
    rows = sites.renewed(recorded, index) or [sites.row(site, index) for site in findings.sites]
    cases, notes = _cases(model, saved, session, options)
    if not described and findings.misses:
        notes.append(f"near misses, which are not judged: {len(findings.misses)}; inspect lists them")
    with session, step("run"):
        answers = [session(case.inputs) for case in cases]
        stages = [proof.outputs("runtime", answers, cases, limits)]
        if options.against is not None and any(case.form for case in saved):
            stages.insert(0, _same_original(saved, cases, limits))
        if rows:
            notes += proof.unseen(graph.model, rows)
            weights = hollow.arrays(graph.held)
            stages.append(proof.site_parity(graph.model, weights, rows, cases, options.provider))
    verdict, reason = proof.verdict(stages)
    return CheckResult(
        schema=SCHEMA,
        model=model,
        provider=session.provider,
        notes=notes,
        sites=rows,
        stages=stages,
        verdict=verdict,
        reason=reason,
    )


def _cases(
    model: str, saved: Sequence[Case], session: runtime.Session, options: CheckOptions
) -> tuple[list[Case], list[str]]:
    """What went in and what must come out: golden data, or the original's answers of today."""
    if options.against is not None:
        with step("run the original"):
            original, line = open_original(options.against, options, saved[0].inputs if saved else None)
            return _answered(original, saved, session), [f"against {line}", *original.notes]
    if not saved:
        raise UsageError(f"{model} has no golden data saved with it; name its original with --against MODEL")
    return list(saved), [f"golden data: {len(saved)} runs of the original"]


def _same_original(saved: Sequence[Case], today: Sequence[Case], limits: Limits) -> Stage:
    """After a change of form the file answers otherwise, so the original of today is held to the one of then."""
    then = [replace(case, form={}) for case in saved]
    return proof.outputs("original", [case.outputs for case in today], then, limits)


def _answered(original: Original, saved: Sequence[Case], session: runtime.Session) -> list[Case]:
    """The original's answers to the golden inputs, or to its own examples, under the file's names."""
    own, names = list(original.examples), list(session.inputs)
    outputs = list(session.outputs)
    if len(own) != len(names):
        raise UsageError(f"the original takes {', '.join(own)}; the file takes {', '.join(names)}")
    cases = saved or [Case(dict(zip(names, original.examples.values(), strict=True)), {})]
    answered = list[Case]()
    for case in cases:
        answers = original.run({mine: case.inputs[name] for mine, name in zip(own, names, strict=True)})
        if len(answers) != len(outputs):
            raise UsageError(f"the original has the outputs {', '.join(answers)}; the file has {', '.join(outputs)}")
        answered.append(replace(case, outputs=dict(zip(outputs, answers.values(), strict=True))))
    return answered

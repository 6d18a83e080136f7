"""``check``: a finished file proved again, from the golden data saved with it or against the original itself.

With golden data it needs numpy and onnxruntime alone; with ``--runtime`` another runtime takes onnxruntime's place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from gelu_deploy import artifact, proof, runtime, sites
from gelu_deploy.arrays import Arrays
from gelu_deploy.artifact.golden import Case
from gelu_deploy.errors import UsageError
from gelu_deploy.graph import hollow
from gelu_deploy.graph.kernels import KernelIndex
from gelu_deploy.graph.opening import Opened, open_graph
from gelu_deploy.graph.recognize import Findings, find
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
        ModelError: A file of the artifact is damaged, it is no ONNX file, or the runtime refuses it.
        SetupError: The runtime is not installed.
        NativeCrash, LimitError: Another runtime died of the file, or did not come back.
    """
    limits = Limits.parse(options.atol, options.rtol)
    if options.runtime is not None and options.provider != "cpu":
        raise UsageError(f"--provider {options.provider} is one of ONNX Runtime's; leave it out with --runtime")
    with step("read"):
        require_onnx(model)
        subject = _Subject(model, artifact.verify(model), artifact.cases(model), open_graph(model))
    limits.for_outputs(subject.outputs)
    checked = _here(subject, options, limits) if options.runtime is None else _elsewhere(subject, options, limits)
    verdict, reason = proof.verdict(checked.stages)
    return CheckResult(
        schema=SCHEMA,
        model=model,
        provider=checked.provider,
        notes=[*checked.notes, *subject.quantized],
        sites=checked.rows,
        stages=checked.stages,
        verdict="fail" if checked.complaint else verdict,
        reason="; ".join(part for part in (checked.complaint, reason) if part),
    )


@dataclass(frozen=True)
class _Subject:
    """The file: where it is, what it says of itself, its golden data and its graph."""

    path: str
    described: Mapping[str, Any]
    saved: Sequence[Case]
    graph: Opened

    @property
    def quantized(self) -> list[str]:
        """A note on a file that ``quantize`` wrote: the limits are not meant for it."""
        said = self.described.get("quantization")
        if not said:
            return []
        how, source = said.get("options", {}).get("precision", "int8"), said.get("source", "MODEL")
        cost = f"gelu-deploy compare {source} --also {Path(self.path).name} --data D says what it costs"
        return [f"quantized ({how}) from {source}: no float file's limits are meant for its answers; {cost}"]

    @cached_property
    def inputs(self) -> list[str]:
        held = self.graph.held.names
        return [value.name or "" for value in self.graph.model.graph.inputs if value.name not in held]

    @cached_property
    def outputs(self) -> list[str]:
        return [value.name or "" for value in self.graph.model.graph.outputs]

    @cached_property
    def findings(self) -> Findings:
        return find(self.graph.model)

    def rows(self, index: KernelIndex | None) -> list[SiteResult]:
        """The sites that were recorded, else those that are found."""
        recorded = cast("list[SiteResult]", self.described.get("sites", []))
        return sites.renewed(recorded, index) or [sites.row(site, index) for site in self.findings.sites]


@dataclass(frozen=True)
class _Checked:
    """What came of it; ``complaint`` says which sites are computed as another form than they are written as."""

    provider: str
    rows: list[SiteResult]
    stages: list[Stage]
    notes: list[str]
    complaint: str = ""


def _here(subject: _Subject, options: CheckOptions, limits: Limits) -> _Checked:
    """In ONNX Runtime."""
    with step("load in the runtime"):
        index = sites.kernels(subject.graph.model, options.provider)
        session = runtime.Session(subject.path, options.provider)
    rows = subject.rows(index)
    cases, notes = _cases(subject, options)
    with session, step("run"):
        answers = [session(case.inputs) for case in cases]
        stages = _stages(subject, answers, cases, options, limits)
        if rows:
            notes += proof.unseen(subject.graph.model, rows)
            weights = hollow.arrays(subject.graph.held)
            stages.append(proof.site_parity(subject.graph.model, weights, rows, cases, options.provider))
    return _Checked(session.provider, rows, stages, notes)


def _elsewhere(subject: _Subject, options: CheckOptions, limits: Limits) -> _Checked:
    """In another runtime: the outputs, and the form that each site is really computed as."""
    from gelu_deploy.others.advice import complaint
    from gelu_deploy.others.elsewhere import measure

    assert options.runtime is not None
    rows = subject.rows(None)
    cases, notes = _cases(subject, options)
    with step("run"):
        found = measure(options.runtime, subject.path, subject.graph, rows, cases)
    stages = _stages(subject, found.answers, cases, options, limits)
    provider = f"{options.runtime} {found.version}"
    return _Checked(provider, rows, stages, notes + found.notes, complaint(options.runtime, rows, found.forms))


def _stages(
    subject: _Subject, answers: Sequence[Arrays], cases: Sequence[Case], options: CheckOptions, limits: Limits
) -> list[Stage]:
    stages = [proof.outputs("runtime", answers, cases, limits)]
    if options.against is not None and any(case.form for case in subject.saved):
        stages.insert(0, _same_original(subject.saved, cases, limits))
    return stages


def _cases(subject: _Subject, options: CheckOptions) -> tuple[list[Case], list[str]]:
    """What went in and what must come out: golden data, or the original's answers of today."""
    saved, notes = subject.saved, list[str]()
    if not subject.described and subject.findings.misses:
        notes = [f"near misses, which are not judged: {len(subject.findings.misses)}; inspect lists them"]
    if options.against is not None:
        with step("run the original"):
            original, line = open_original(options.against, options, saved[0].inputs if saved else None)
            return _answered(original, subject), [f"against {line}", *original.notes, *notes]
    if not saved:
        raise UsageError(f"{subject.path} has no golden data saved with it; name its original with --against MODEL")
    return list(saved), [f"golden data: {len(saved)} runs of the original", *notes]


def _same_original(saved: Sequence[Case], today: Sequence[Case], limits: Limits) -> Stage:
    """After a change of form the file answers otherwise, so the original of today is held to the one of then."""
    then = [replace(case, form={}) for case in saved]
    return proof.outputs("original", [case.outputs for case in today], then, limits)


def _answered(original: Original, subject: _Subject) -> list[Case]:
    """The original's answers to the golden inputs, or to its own examples, under the file's names."""
    own, names, outputs = list(original.examples), subject.inputs, subject.outputs
    if len(own) != len(names):
        raise UsageError(f"the original takes {', '.join(own)}; the file takes {', '.join(names)}")
    cases = subject.saved or [Case(dict(zip(names, original.examples.values(), strict=True)), {})]
    answered = list[Case]()
    for case in cases:
        answers = original.run({mine: case.inputs[name] for mine, name in zip(own, names, strict=True)})
        if len(answers) != len(outputs):
            raise UsageError(f"the original has the outputs {', '.join(answers)}; the file has {', '.join(outputs)}")
        answered.append(replace(case, outputs=dict(zip(outputs, answers.values(), strict=True))))
    return answered

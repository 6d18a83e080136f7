"""What competes: the ways to write a model's GELUs, each made as ``export`` would write it.

It knows passes and kernels, and measures no time.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from gelu_deploy import runtime
from gelu_deploy.choosing.files import Shelf
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.gelu.spellings import HIDDEN
from gelu_deploy.graph.inlined import inlined
from gelu_deploy.graph.kernels import KernelIndex
from gelu_deploy.graph.recognize import Findings, Site
from gelu_deploy.graph.rewrite import Plan, Rewrite
from gelu_deploy.options import ExportOptions
from gelu_deploy.pipeline import Pipeline
from gelu_deploy.targets import Target, Written
from gelu_deploy.targets.fitting import OFFERED

KEEP = "keep"
SPELLINGS = ("auto", "gelu", "ops", "contrib", "sigmoid3")
"""In this order: of two that become the same kernels the first stays."""
TARGET = {"cpu": "ort-cpu", "cuda": "ort-cuda"}
"""The target that a provider is measured for."""

Choices = Mapping[str, Written]
"""Form and spelling by the output of a GELU; those that are not in it are written as ``keep`` writes them."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to write all GELUs of a model.

    Attributes:
        choices: What was asked for.
        plans: What became of it, by the output of each GELU that is written anew.
        kernels: What computes each of them.
        error: The largest change of any output that its form causes.
        needs: What would have to be said for it to be taken, ``""`` where it may be.
        file: Where it lies.
    """

    choices: Choices
    plans: Mapping[str, Plan]
    kernels: Mapping[str, tuple[str, ...]]
    error: float
    needs: str
    file: Path

    @property
    def forms(self) -> tuple[str, ...]:
        """Of every GELU."""
        return tuple(plan.form for plan in self.plans.values())

    def runs(self, name: str) -> object:
        """What computes one GELU: its form and its kernels."""
        return self.plans[name].form, self.kernels[name]

    @property
    def name(self) -> str:
        """``tanh as gelu``; where they differ, ``3 erf as ops, 1 tanh as gelu``."""
        said = ((plan.form, plan.spelling.replace(HIDDEN, "sigmoid3")) for plan in self.plans.values())
        count = Counter(f"{form} as {spelling}" for form, spelling in said)
        return next(iter(count)) if len(count) == 1 else ", ".join(f"{n} {what}" for what, n in count.items())


@dataclass
class Maker:
    """Makes candidates of one model, and no two that run the same kernels.

    Attributes:
        start: The graph before any pass; it is never changed.
        options: As of ``export``, with the form ``keep``.
        opset: Operator set to write.
        target: Where it is to run, if that was said.
        shelf: Where files go.
    """

    start: Pipeline
    options: ExportOptions
    opset: int
    target: Target | None
    shelf: Shelf

    def __post_init__(self) -> None:
        self._asked = dict[tuple[tuple[str, Written], ...], Candidate | None]()
        self._made = dict[object, Candidate]()
        self._errors = dict[str, float]()

    @cached_property
    def base(self) -> Candidate:
        """What ``keep`` writes. Raises UsageError and ModelError as the pipeline does."""
        return self._make({}, KEEP)

    def competitors(self) -> list[Candidate]:
        """What ``keep`` writes, and all that becomes other kernels, each for every GELU; empty where there is none."""
        if not self.base.plans:
            return []
        found, own = [self.base], set(self.base.forms)
        spellings = SPELLINGS if self.options.spelling == "auto" else (self.options.spelling,)
        seen = {None, self._resolved(KEEP, self.options.spelling)}
        for form in (KEEP, *(form for form in OFFERED if own != {form})):
            for spelling in spellings:
                resolved = self._resolved(form, spelling)
                made = None if resolved in seen else self.make(dict.fromkeys(self.base.plans, (form, spelling)), form)
                seen.add(resolved)
                found += [] if made is None or made in found else [made]
        return found

    def groups(self) -> list[tuple[str, ...]]:
        """Outputs of the GELUs of each kind, those that compute most first: same type, shape, producer and kernel."""
        found = defaultdict[object, list[str]](list)
        for name, plan in self.base.plans.items():
            producer, kernels = plan.site.source.producer(), self.base.kernels[name]
            operator, fused = "" if producer is None else producer.op_type, kernels if len(kernels) == 1 else ()
            found[plan.dtype, _shape(plan.site), operator, fused].append(name)
        sites = {name: plan.site for name, plan in self.base.plans.items()}
        return sorted(map(tuple, found.values()), key=lambda names: -len(names) * _size(sites[names[0]]))

    def make(self, choices: Choices, form: str = "") -> Candidate | None:
        """The candidate for these choices, or an earlier one that runs the same kernels.

        None where the target, the operator set or the runtime does not take it, or an output becomes NaN or infinite.

        Args:
            choices: What to write.
            form: Under which name the change of the outputs is measured, once; ``""`` to measure it in any case.
        """
        asked = tuple(sorted(choices.items()))
        if asked not in self._asked:
            try:
                made = self._make(choices, form)
            except (UsageError, ModelError):
                made = None
            self._asked[asked] = None if made is None or not math.isfinite(made.error) else made
        return self._asked[asked]

    def _make(self, choices: Choices, form: str) -> Candidate:
        branch = self.start.branched(choices, measured=not form or form not in self._errors)
        findings = branch.run(self.options, self.opset, self.target)
        plans = {name: plan for name, plan in branch.plans if not plan.kept}
        flat = inlined(branch.model)
        graph = runtime.optimised(flat.model, self.options.provider)
        kernels = _kernels(KernelIndex(graph, flat), findings, list(plans))
        operators = sorted(f"{node.domain}.{node.op_type}" for node in graph.graph.all_nodes())
        key = (*((plan.form, kernels[name]) for name, plan in plans.items()), *operators)
        error = self._error(branch, form)
        if key not in self._made:
            file = self.shelf.write(f"{len(self._made)}.onnx", branch.whole())
            self._made[key] = Candidate(choices, plans, kernels, error, self._needs(plans.values(), error), file)
        return self._made[key]

    def _error(self, branch: Pipeline, form: str) -> float:
        """The change that a form causes, from where it was measured."""
        if not branch.measured:
            return self._errors[form]
        if form == KEEP and not any(stage["name"] == "simplify" for stage in branch.stages):
            self.options = replace(self.options, simplify=False)  # it moved the answers; nothing tells that unmeasured
        self._errors[form] = next((s["max_abs"] for s in branch.stages if s["name"].startswith("form ")), 0.0)
        return self._errors[form]

    def _resolved(self, form: str, spelling: str) -> tuple[Written, ...] | None:
        """What would be written; None where there is no such spelling."""
        options, best = self.options, {} if self.target is None else self.target.written(self.opset)
        writer = Rewrite((), form, spelling, options.exclude, self.opset, options.fp16_safe, best)
        try:
            plans = [writer.plan(plan.site) for plan in self.base.plans.values()]
        except UsageError:
            return None
        return tuple((plan.form, plan.spelling) for plan in plans)

    def _needs(self, plans: Iterable[Plan], error: float) -> str:
        plans, budget, needs = list(plans), self.options.max_form_error, list[str]()
        if any(plan.form != plan.site.form for plan in plans) and (budget is None or error > budget):
            needs.append(f"--max-form-error {above(error)}")
        if self.target is None and self.options.spelling == "auto" and any(one.spelling == "contrib" for one in plans):
            target = TARGET.get(self.options.provider)
            needs.append(f"--target {target}" if target else "--spelling contrib")
        return " ".join(needs)


def above(error: float) -> str:
    """The next number of one digit: ``7e-4`` for 0.00061."""
    if error == 0:
        return "0"
    exponent = math.floor(math.log10(error))
    digit = math.ceil(round(error / 10**exponent, 9))
    return f"{digit}e{exponent}" if digit < 10 else f"1e{exponent + 1}"


def _kernels(index: KernelIndex, findings: Findings, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Of the GELUs of these outputs; one whose output was renamed by a pass is the next that is left."""
    found = {
        site.output.name or "": index.of(site.source.name or "", site.output.name or "", site.function).ops
        for site in findings.sites
    }
    rest = iter([ops for name, ops in found.items() if name not in names])
    return {name: found[name] if name in found else next(rest, ()) for name in names}


def _shape(site: Site) -> str:
    return "" if site.output.shape is None else str(site.output.shape)


def _size(site: Site) -> int:
    """Numbers in one row of its output, as far as the graph says."""
    dims = () if site.output.shape is None else site.output.shape.dims
    return math.prod(size for size in dims if isinstance(size, int))

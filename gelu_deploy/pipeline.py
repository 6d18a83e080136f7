"""From an original to a proved graph: export, rewrite, convert, simplify, each stage measured against the original.

It writes no file and decides no verdict; it knows no torch, exporters are loaded by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir

from gelu_deploy import proof
from gelu_deploy.arrays import Array
from gelu_deploy.artifact.golden import Case
from gelu_deploy.errors import ModelError
from gelu_deploy.graph import attention, hollow
from gelu_deploy.graph.opening import emptied
from gelu_deploy.graph.opset import Convert
from gelu_deploy.graph.passes import Pass
from gelu_deploy.graph.recognize import Findings, find
from gelu_deploy.graph.rewrite import Plan, Rewrite
from gelu_deploy.graph.simplify import FUSED, Simplify
from gelu_deploy.options import ExportOptions
from gelu_deploy.parity import Limits
from gelu_deploy.progress import step
from gelu_deploy.results import Stage
from gelu_deploy.targets import Target, Written
from gelu_deploy.targets.fitting import WriteOut, fits, refuse_forms, refuse_operators


@dataclass
class Pipeline:
    """One model on its way; ``model`` is hollow from the start.

    Attributes:
        model: The graph as it is now.
        held: Its large weights.
        cases: What the original was given and answered; after an asked-for change of form also what is expected then.
        limits: Tolerances.
        measured: Whether stages are measured at all.
        choices: Form and spelling of single sites, by the name of their output, where they are not the options'.
        stages: The waterfall so far.
        notes: What passes had to say.
        plans: (output name, plan) of every site, once written.
    """

    model: ir.Model
    held: hollow.Held
    cases: Sequence[Case]
    limits: Limits
    measured: bool
    choices: Mapping[str, Written] = field(default_factory=dict[str, Written])
    stages: list[Stage] = field(default_factory=list[Stage])
    notes: list[str] = field(default_factory=list[str])
    plans: list[tuple[str, Plan]] = field(default_factory=list[tuple[str, Plan]])
    _straight: dict[str, tuple[ir.TensorProtocol, Array]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def start(cls, model: ir.Model, cases: Sequence[Case], limits: Limits, *, measured: bool) -> Pipeline:
        """Take a whole model in; its weights are held out until :meth:`whole`."""
        opened = emptied(model)
        pipeline = cls(opened.model, opened.held, cases, limits, measured)
        pipeline.measure("export")
        return pipeline

    def branched(self, choices: Mapping[str, Written], *, measured: bool) -> Pipeline:
        """A try with these choices, on a copy of the graph as it is now; weights are shared."""
        model = self.model.clone()
        held = hollow.Held({value.name: value for value in model.graph.inputs if value.name in self.held.names})
        return Pipeline(model, held, self.cases, self.limits, measured, choices)

    @property
    def weights(self) -> dict[str, Array]:
        """The held weights as arrays, for running the hollow graph; one that lies another way is copied once."""
        for name, value in self.held.weights.items():
            tensor, (known, _) = value.const_value, self._straight.get(name, (None, None))
            if tensor is not None and tensor is not known:
                self._straight[name] = tensor, np.ascontiguousarray(tensor.numpy())
        return {name: array for name, (_, array) in self._straight.items()}

    def run(self, options: ExportOptions, opset: int, target: Target | None = None) -> Findings:
        """All passes in the order that loses nothing; returns the sites of the finished graph.

        Rewriting comes before simplifying (onnxsim folds the trailing ½ of a GELU into the next Conv's weights), after
        converting up (a ``Gelu`` node needs opset 20) and before converting down (it has no older form). What a
        target lacks is written out before that, and looked for again in the end. Attention comes after simplifying,
        which finds some.
        """
        own = self.model.opset_imports.get("", 0)
        if opset > own:
            self.apply(Convert(opset), f"opset {opset}")
        self.rewrite(options, opset, target)
        if target is not None and not fits(self.model, target):
            self.apply(WriteOut(target), f"target {target.name}")
        if opset < own:
            self.apply(Convert(opset), f"opset {opset}")
        if options.simplify:
            self.simplify(target)
        if target is not None and target.takes(attention.OPERATOR, attention.DOMAIN) and attention.separate(self.model):
            self.apply(attention.WholeAttention(), "attention")
        if target is not None:
            refuse_operators(self.model, target)
        return self.survivors()

    def rewrite(self, options: ExportOptions, opset: int, target: Target | None = None) -> None:
        """Write every site anew; an asked-for change of form is a line of its own and moves what is expected."""
        with step("rewrite"):
            found = find(self.model, accept_error=options.accept_error).sites
            best = target.written(opset) if target is not None else {}
            writer = Rewrite(
                found,
                options.form,
                options.spelling,
                options.exclude,
                opset,
                options.fp16_safe,
                best,
                self.choices,
            )
            self.plans = [(site.output.name or "", writer.plan(site)) for site in found]
            if target is not None:
                self.notes += refuse_forms([plan for _, plan in self.plans], target, opset)
            self.notes += writer.apply(self.model).notes
            self.notes += _idle(options.exclude, [site.module for site in found])
        changed = sorted({plan.change for _, plan in self.plans if plan.change})
        self.measure(f"form {', '.join(changed)}" if changed else "rewrite", held_to_table=not changed)

    def simplify(self, target: Target | None = None) -> None:
        """onnxsim, kept only if the answers stay the same."""
        before = self.model
        apart = () if target is None else tuple(op for op in FUSED if not target.takes(op))
        self.apply(Simplify(apart), "simplify")
        if self.measured and not self.stages[-1]["passed"]:
            self.model = before
            worst = self.stages.pop()
            self.notes.append(f"not simplified: onnxsim moved {worst['worst']} by {worst['max_abs']:.1e}")

    def apply(self, one: Pass, name: str) -> None:
        """One pass, then the checker, then its line of the waterfall."""
        with step(name.split(maxsplit=1)[0]):
            result = one.apply(self.model)
            self.model = result.model
            self.notes += result.notes
        self.measure(name)

    def measure(self, name: str, *, held_to_table: bool = True) -> None:
        """The graph as it stands, unoptimised, against what is expected."""
        with step("check"):
            check(self.model, name)
        if not self.measured:
            return
        with step("run"):
            run = proof.hollow_run(self.model, self.weights)
            answers = [run(case.inputs) for case in self.cases]
        stage = proof.outputs(name, answers, self.cases, self.limits)
        if not held_to_table:
            stage["passed"], stage["ratio"] = True, math.nan
            self.cases = [replace(case, form=own) for case, own in zip(self.cases, answers, strict=True)]
        self.stages.append(stage)

    def survivors(self) -> Findings:
        """The sites of the finished graph. Anything but those that were written is a bug of ours."""
        with step("recognize"):
            again = find(self.model)
        wanted = sorted(plan.form for _, plan in self.plans if not plan.kept)
        excluded = {name for name, plan in self.plans if plan.kept}
        if sorted(site.form for site in again.sites if site.output.name not in excluded) != wanted:
            raise AssertionError(f"{len(wanted)} GELUs were written and {len(again.sites)} are found again")
        return again

    def whole(self) -> ir.Model:
        """The model with its weights back in place; it is not run any more."""
        self._straight.clear()
        hollow.put_back(self.model, self.held)
        self.model.producer_name, self.model.producer_version = "gelu_deploy", None
        return self.model


def _idle(patterns: Sequence[str], modules: Sequence[str]) -> list[str]:
    """A note for every ``--exclude`` that no GELU's module matches."""
    there = ", ".join(dict.fromkeys(re.sub(r"\d+", "*", module) for module in modules)) or "none"
    idle = [pattern for pattern in patterns if not any(fnmatchcase(module, pattern) for module in modules)]
    return [f"--exclude {pattern} matches no GELU; their modules are {there}" for pattern in idle]


def check(model: ir.Model, after: str) -> None:
    """ONNX's full checker over a hollow model. Raises ModelError with the stage after which it is invalid."""
    from onnx import checker

    try:
        checker.check_model(ir.to_proto(model), full_check=True)
    except Exception as error:  # the checker raises several unrelated types
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"after {after} the ONNX checker refuses the model: {first}") from error

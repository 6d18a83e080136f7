"""Every recognised GELU, written anew in one form and one spelling. It replaces and never deletes.

It knows nothing of how sites are found, nor of runtimes; what a spelling is stands in ``gelu.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir

from gelu_deploy import gelu
from gelu_deploy.errors import UsageError
from gelu_deploy.graph.arithmetic import operands, tensor_of, uniform
from gelu_deploy.graph.passes import Result
from gelu_deploy.graph.recognize import Site
from gelu_deploy.graph.write import Writer, remove_dead
from gelu_deploy.parity import tolerance

HALVES = {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}


@dataclass(frozen=True)
class Plan:
    """One site and what it is to be written as.

    Attributes:
        site: What was found.
        form: Form to write.
        spelling: Spelling to write.
        alpha: Slope to write, for the sigmoid form.
        dtype: Type to compute in; the site's own, or float32 between two Casts.
        kept: Whether it stays exactly as it is.
    """

    site: Site
    form: str
    spelling: str
    alpha: float | None
    dtype: ir.DataType
    kept: bool = False

    @property
    def steps(self) -> tuple[gelu.Step, ...]:
        """The operators to write."""
        return gelu.FORMS[self.form].spellings[self.spelling].steps

    @property
    def change(self) -> str:
        """What changes in the numbers because it was asked for, ``""`` if nothing."""
        if self.kept:
            return ""
        if self.form != self.site.form:
            return f"{self.site.form} -> {self.form}"
        accepted = self.site.error > tolerance(self.dtype.numpy().name).form
        return f"accepted as {self.form}" if accepted else ""

    def number(self, item: str | float) -> float:
        """A constant of a step: itself, or the slope of the site."""
        if not isinstance(item, str):
            return item
        assert item == "alpha"
        assert self.alpha is not None
        return self.alpha


@dataclass(frozen=True)
class Rewrite:
    """Writes sites in one form and spelling, in place.

    Attributes:
        sites: What :func:`recognize.find` saw in the same model.
        form: Target form, or ``keep``.
        spelling: Target spelling, or ``auto``: one ``Gelu`` where the opset and the form have it, else operators.
        exclude: Module name patterns whose sites are left alone.
        opset: Operator set that the model is to have in the end.
        fp16_safe: Whether 16-bit sites are computed in float32 between Casts.
        best: The spelling that ``auto`` takes, by form, where a target has a say.
        choices: Form and spelling of single sites, by the name of their output, in the place of ``form`` and
            ``spelling``.
    """

    sites: tuple[Site, ...]
    form: str = "keep"
    spelling: str = "auto"
    exclude: Sequence[str] = ()
    opset: int = 20
    fp16_safe: bool = False
    best: Mapping[str, str] = field(default_factory=dict[str, str])
    choices: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])

    def apply(self, model: ir.Model) -> Result:
        """Raises UsageError, before anything changes, when a spelling does not exist at this opset or for a form."""
        plans = [self.plan(site) for site in self.sites]
        todo = [plan for plan in plans if not plan.kept and not _is_written_so(plan)]
        if not todo:
            return Result(model, modified=False)
        writer = Writer(model)
        for plan in todo:
            writer.write(plan.site, plan.steps, plan.number, plan.dtype)
        remove_dead(plan.site for plan in todo)
        return Result(model, modified=True, notes=tuple(_notes(todo)))

    def plan(self, site: Site) -> Plan:
        """What ``site`` becomes."""
        own = site.dtype or ir.DataType.FLOAT
        if any(fnmatchcase(site.module, pattern) for pattern in self.exclude):
            return Plan(site, site.form, site.spelling, site.alpha, own, kept=True)
        form, spelling = self.choices.get(site.output.name or "", (self.form, self.spelling))
        form = site.form if form == "keep" else form
        dtype = ir.DataType.FLOAT if self.fp16_safe and own in HALVES else own
        spelling = self._spelling(site, form, spelling, dtype)
        alphas = gelu.FORMS[form].alphas
        alpha = (site.alpha if site.alpha in alphas else _held(alphas, dtype)) if alphas else None
        return Plan(site, form, spelling, alpha, dtype)

    def _spelling(self, site: Site, form: str, wanted: str, dtype: ir.DataType) -> str:
        opset, known = self._opset(site), gelu.FORMS[form].spellings
        spelling = self.best.get(form, "auto") if wanted == "auto" else wanted
        if spelling == "auto":
            spelling = "gelu" if "gelu" in known and known["gelu"].since <= opset else "ops"
        if spelling == "ops" and "ops-safe" in known and (dtype in HALVES or _half_is_shared(site)):
            spelling = "ops-safe"
        if spelling not in known:
            ways = ", ".join(name for name in known if name != "ops-safe")
            raise UsageError(f"--spelling {spelling}: the {form} form has none; it can be written as {ways}")
        if known[spelling].since > opset:
            raise UsageError(
                f"--spelling {spelling} needs opset {known[spelling].since} or later and the model is to have "
                f"{opset}; raise --opset or take --spelling ops"
            )
        return spelling

    def _opset(self, site: Site) -> int:
        """A function has its own operator set, which is not converted with the model's."""
        own = site.graph.opset_imports.get("") if isinstance(site.graph, ir.Function) else None
        return self.opset if own is None else min(own, self.opset)


def _held(alphas: Sequence[float], dtype: ir.DataType) -> float:
    """The form's own slope, as nearly as numbers of this type hold it."""
    rounded = float(np.asarray(alphas[0], dtype.numpy()))
    return min(alphas, key=lambda known: abs(known - rounded))


def _half_is_shared(site: Site) -> bool:
    """Whether something else computes ½x too: the runtime merges the two, then its tanh fusion deletes one too many."""
    for node, _ in site.source.uses():
        halves = node.op_type == "Mul" and any(_is_half(value) for value in node.inputs)
        if not halves:
            continue
        outside = any(user not in site.nodes for user, _ in node.outputs[0].uses())
        if node not in site.nodes or outside or node.outputs[0].is_graph_output():
            return True
    return False


def _is_half(value: ir.Value | None) -> bool:
    return value is not None and uniform(tensor_of(value)) == 0.5


def _is_written_so(plan: Plan) -> bool:
    """Whether the site already has exactly the operators of its plan, in order."""
    site = plan.site
    same = (site.form, site.alpha, site.scale, site.dtype or ir.DataType.FLOAT)
    if same != (plan.form, plan.alpha, 1.0, plan.dtype) or site.bias is not None:
        return False
    if site.spelling != "ops":
        return site.spelling == plan.spelling
    if [(node.op_type, node.domain) for node in site.nodes] != [(step.op, step.domain) for step in plan.steps]:
        return False
    values: dict[str, ir.Value] = {"x": site.source}
    for node, step in zip(site.nodes, plan.steps, strict=True):
        values[step.output] = node.outputs[0]
        for given, wanted in zip(operands(node), step.inputs, strict=True):
            if given is not values[wanted] if wanted in values else not _holds(given, plan.number(wanted)):
                return False
    return True


def _holds(value: ir.Value | None, number: float) -> bool:
    """Whether ``value`` is the scalar constant that would be written for ``number``."""
    tensor = None if value is None else tensor_of(value)
    return tensor is not None and not tensor.shape.dims and tensor.numpy() == np.asarray(number, tensor.dtype.numpy())


def _notes(plans: Iterable[Plan]) -> list[str]:
    """What a person should know: where the new spelling is not what the old one was, at minus infinity."""
    moved = [plan.site.output.name or "" for plan in plans if not np.isnan(plan.site.limit)]
    if not moved:
        return []
    return [f"at -inf {', '.join(moved[:3])}{' and others' if len(moved) > 3 else ''} gave 0 and now gives NaN"]

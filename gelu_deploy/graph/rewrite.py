"""Every recognised GELU, written anew in one form and one spelling. It replaces and never deletes.

It knows nothing of how sites are found, nor of runtimes; what a spelling is stands in ``gelu.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from gelu_deploy import gelu
from gelu_deploy.errors import UsageError
from gelu_deploy.graph.passes import Result
from gelu_deploy.graph.recognize import Site
from gelu_deploy.graph.scopes import MODULE

CONTRIB_DOMAIN = "com.microsoft"


@dataclass(frozen=True)
class Plan:
    """One site and what it is to be written as."""

    site: Site
    form: str
    spelling: str
    alpha: float | None

    @property
    def steps(self) -> tuple[gelu.Step, ...]:
        """The operators to write."""
        return gelu.FORMS[self.form].spellings[self.spelling].steps


@dataclass(frozen=True)
class Rewrite:
    """Writes sites in one form and spelling, in place.

    Attributes:
        sites: What :func:`recognize.find` saw in the same model.
        form: Target form, or ``keep``.
        spelling: Target spelling, or ``auto``: one ``Gelu`` where the opset and the form have it, else operators.
        exclude: Module name patterns whose sites are left alone.
        opset: Operator set that the model is to have in the end.
    """

    sites: tuple[Site, ...]
    form: str = "keep"
    spelling: str = "auto"
    exclude: Sequence[str] = ()
    opset: int = 20

    def apply(self, model: ir.Model) -> Result:
        """Raises UsageError when a spelling does not exist at this opset or for a form."""
        plans = [self.plan(site) for site in self.sites]
        todo = [plan for plan in plans if not _excluded(plan.site, self.exclude) and not _is_written_so(plan)]
        constants = _Constants(model.graph)
        moved: dict[ir.Value, ir.Value] = {}  # a GELU may read another one that was just written anew
        for plan in todo:
            moved[plan.site.output] = _write(plan, model, constants, moved)
        if not todo:
            return Result(model, modified=False)
        RemoveUnusedNodesPass()(model)
        return Result(model, modified=True)

    def plan(self, site: Site) -> Plan:
        """What ``site`` becomes."""
        if _excluded(site, self.exclude):
            return Plan(site, site.form, site.spelling, site.alpha)
        form = site.form if self.form == "keep" else self.form
        spelling = self.spelling if self.spelling != "auto" else _best(form, self.opset)
        known = gelu.FORMS[form].spellings
        if spelling not in known:
            raise UsageError(
                f"--spelling {spelling}: the {form} form has none; it can be written as {', '.join(known)}"
            )
        if known[spelling].since > self.opset:
            raise UsageError(
                f"--spelling {spelling} needs opset {known[spelling].since} or later and the model is to have "
                f"{self.opset}; raise --opset or take --spelling ops"
            )
        alphas = gelu.FORMS[form].alphas
        alpha = (site.alpha if site.alpha in alphas else _held(alphas, site.source.dtype)) if alphas else None
        return Plan(site, form, spelling, alpha)


def _held(alphas: Sequence[float], dtype: ir.DataType | None) -> float:
    """The form's own slope, as nearly as numbers of this type hold it."""
    rounded = float(np.asarray(alphas[0], (dtype or ir.DataType.FLOAT).numpy()))
    return min(alphas, key=lambda known: abs(known - rounded))


def _best(form: str, opset: int) -> str:
    node = gelu.FORMS[form].spellings.get("gelu")
    return "gelu" if node is not None and node.since <= opset else "ops"


def _excluded(site: Site, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(site.module, pattern) for pattern in patterns)


def _is_written_so(plan: Plan) -> bool:
    """Whether the site already has exactly the operators of its plan, in order."""
    site = plan.site
    if (site.form, site.spelling, site.alpha) != (plan.form, plan.spelling, plan.alpha):
        return False
    if site.spelling != "ops":
        return site.bias is None
    if [node.op_type for node in site.nodes] != [step.op for step in plan.steps]:
        return False
    values: dict[str, ir.Value] = {"x": site.source}
    for node, step in zip(site.nodes, plan.steps, strict=True):
        values[step.output] = node.outputs[0]
        for given, wanted in zip(node.inputs, step.inputs, strict=True):
            if given is not values[wanted] if wanted in values else not _holds(given, _number(wanted, plan)):
                return False
    return True


def _holds(value: ir.Value | None, number: float) -> bool:
    """Whether ``value`` is the scalar constant that would be written for ``number``."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return tensor is not None and not tensor.shape.dims and tensor.numpy() == np.asarray(number, tensor.dtype.numpy())


class _Constants:
    """Scalar initializers of one graph, one for each number and type."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._made: dict[tuple[float, ir.DataType], ir.Value] = {}

    def get(self, number: float, dtype: ir.DataType) -> ir.Value:
        key = (number, dtype)
        if key not in self._made:
            name = f"gelu_deploy.{number:.9g}.{dtype.name.lower()}"
            tensor = ir.tensor(np.asarray(number, dtype.numpy()), dtype, name=name)
            value = self._graph.initializers.get(name) or ir.val(name, const_value=tensor)
            self._graph.initializers[name] = value
            self._made[key] = value
        return self._made[key]


def _write(plan: Plan, model: ir.Model, constants: _Constants, moved: Mapping[ir.Value, ir.Value]) -> ir.Value:
    """Put the new operators before the old last one, move all users of its output to theirs, which is returned."""
    site, old = plan.site, plan.site.output
    tail, name, dtype = site.nodes[-1], old.name or "gelu", site.source.dtype or ir.DataType.FLOAT
    steps = plan.steps
    if site.bias is not None:
        steps = (gelu.Step("Add", ("x", "bias"), "biased"), *_read(steps, "biased"))
    given = {"x": site.source} | ({"bias": site.bias} if site.bias is not None else {})
    values = {name: moved.get(value, value) for name, value in given.items()}
    made = list[ir.Node]()
    for step in steps:
        inputs = [values[item] if item in values else constants.get(_number(item, plan), dtype) for item in step.inputs]
        node = ir.node(
            step.op,
            inputs,
            {key: plan.alpha if text == "alpha" else text for key, text in step.attributes.items()},
            domain=step.domain,
            name=f"{name}.{step.output}",
        )
        node.outputs[0].name = f"{name}.{step.output}"
        node.outputs[0].dtype, node.outputs[0].shape = dtype, old.shape
        if MODULE in tail.metadata_props:
            node.metadata_props[MODULE] = tail.metadata_props[MODULE]
        values[step.output] = node.outputs[0]
        made.append(node)
    model.graph.insert_before(tail, made)
    if any(step.domain for step in steps):
        model.opset_imports[CONTRIB_DOMAIN] = 1
    old.replace_all_uses_with(values["y"], replace_graph_outputs=True)
    old.name, values["y"].name = f"{name}.replaced", name
    return values["y"]


def _read(steps: Iterable[gelu.Step], source: str) -> tuple[gelu.Step, ...]:
    """The same steps reading ``source`` in place of ``x``."""
    return tuple(replace(step, inputs=tuple(source if item == "x" else item for item in step.inputs)) for step in steps)


def _number(item: str | float, plan: Plan) -> float:
    if not isinstance(item, str):
        return item
    assert item == "alpha"
    assert plan.alpha is not None
    return plan.alpha

"""Whether a graph fits a target: the ways in which its GELUs are written, and every operator in it.

It changes a graph only to write an operator that the target lacks as simpler ones; it knows nothing of files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.graph.bodies import every_node, write_out
from gelu_deploy.graph.passes import Result
from gelu_deploy.graph.rewrite import Plan
from gelu_deploy.graph.scopes import places_of
from gelu_deploy.targets import Target

OFFERED = ("erf", "tanh", "sigmoid")
"""Forms that a message may propose."""


@dataclass(frozen=True)
class WriteOut:
    """Writes operators that a target lacks as simpler ones, in place, where that is possible."""

    target: Target

    def apply(self, model: ir.Model) -> Result:
        """Never raises: what is left is for :func:`refuse_operators`."""
        notes = write_out(model, lambda node: not self.target.takes(node.op_type, node.domain), self.target.name)
        return Result(model, modified=bool(notes), notes=tuple(notes))


def fits(model: ir.Model, target: Target) -> bool:
    """Whether the target takes every operator."""
    return not _strangers(model, target)


def refuse_forms(plans: Sequence[Plan], target: Target, opset: int) -> list[str]:
    """Refuse to write a GELU so that the target computes another function, or cannot run it.

    Returns:
        Notes on what is written, and on sites that ``--exclude`` leaves as the target does not compute them.

    Raises:
        UsageError: It would be computed as another form.
        ModelError: It needs an operator that the target lacks.
    """
    notes = list[str]()
    for (form, spelling, kept), same in _by_writing(plans).items():
        instead, where = target.instead.get((form, spelling)), places_of([plan.site.nodes[-1] for plan in same])
        if kept and instead:
            notes.append(f"{target.name} computes {form} as {instead} in {where}, which --exclude leaves as it is")
        elif not kept and instead:
            told = f"{target.name} computes {form} written as {spelling} as {instead}, in {where}"
            raise UsageError(f"{told}: {_way_out(target, form, opset)}")
        elif not kept and (missing := target.missing(form, spelling)):
            told = f"{missing} in {where} is not an operator of {target.name}"
            raise ModelError(f"{told}: {_way_out(target, form, opset)}")
        elif not kept:
            notes.append(f"target {target.name}: {form} is written as {spelling}")
    return notes


def _by_writing(plans: Iterable[Plan]) -> dict[tuple[str, str, bool], list[Plan]]:
    found = defaultdict[tuple[str, str, bool], list[Plan]](list)
    for plan in plans:
        spelling = plan.site.spelling if plan.kept else plan.spelling
        found[plan.form, spelling.replace("ops-safe", "sigmoid3"), plan.kept].append(plan)
    return found


def _way_out(target: Target, form: str, opset: int) -> str:
    """What to say instead."""
    spelling = target.spelling(form, opset)
    if spelling is not None:
        return f"leave --spelling away, and it is written as {spelling}"
    others = [other for other in OFFERED if target.spelling(other, opset) is not None]
    return f"say --form {' or '.join(others)}, or take another target" if others else "take another target"


def refuse_operators(model: ir.Model, target: Target) -> None:
    """Refuse operators that the target does not take, wherever they stand. Raises ModelError that names them all."""
    strangers = _strangers(model, target)
    if strangers:
        told = "; ".join(f"{op} in {places_of(nodes)}" for op, nodes in strangers.items())
        raise ModelError(
            f"not an operator of {target.name}: {told}. Take another target, or write the network without it; "
            f"the list is from {target.sources['operators']}"
        )


def _strangers(model: ir.Model, target: Target) -> dict[str, list[ir.Node]]:
    """The operators that the target does not take."""
    ours = {(function.domain, function.name) for function in model.functions.values()}
    found = defaultdict[str, list[ir.Node]](list)
    for node in every_node(model):
        if (node.domain, node.op_type) not in ours and not target.takes(node.op_type, node.domain):
            found[f"{node.domain}.{node.op_type}".lstrip(".")].append(node)
    return dict(found)

"""Sites as rows of a report: what was found, what was written, what the runtime made of it.

It joins what ``graph`` knows and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.graph.kernels import KernelIndex
from gelu_deploy.graph.recognize import Miss, Site
from gelu_deploy.graph.rewrite import Plan
from gelu_deploy.graph.scopes import module_of
from gelu_deploy.graph.survival import reason
from gelu_deploy.results import NearMiss, SiteResult, Writing


def writing(form: str, spelling: str, alpha: float | None) -> Writing:
    """A form in a spelling, for a report."""
    row = Writing(form=form, spelling=spelling)
    if alpha is not None:
        row["alpha"] = alpha
    return row


def kernels(model: ir.Model, provider: str) -> KernelIndex:
    """What the runtime makes of a hollow graph."""
    return KernelIndex(runtime.optimised(model, provider))


def row(site: Site, index: KernelIndex) -> SiteResult:
    """One site as it stands in a graph."""
    one = SiteResult(
        form=site.form,
        spelling=site.spelling,
        input=site.source.name or "",
        output=site.output.name or "",
        module=site.module,
        error=site.error,
        kernels=[],
        reason="",
    )
    if site.bias is not None:
        one["bias"] = site.bias.name or ""
    if site.scale != 1:
        one["scale"] = site.scale
    _with_kernels(one, index)
    if one["kernels"]:
        one["reason"] = reason(site, tuple(one["kernels"]))
    return one


def renewed(rows: Iterable[SiteResult], index: KernelIndex) -> list[SiteResult]:
    """Rows that an artifact recorded, with the kernels of this runtime."""
    return [_with_kernels(one, index) for one in rows]


def _with_kernels(one: SiteResult, index: KernelIndex) -> SiteResult:
    became = index.of(one["input"], one["output"])
    one["kernels"], one["reason"] = list(became.ops), became.reason
    return one


def rewritten(rows: Sequence[SiteResult], plans: Sequence[tuple[str, Plan]]) -> list[SiteResult]:
    """The rows of the final graph with what was found and what was written, joined by output name, else by place."""
    by_name = dict(plans)
    spare = [plan for name, plan in plans if name not in {row["output"] for row in rows}]
    for one in rows:
        plan = by_name.get(one["output"]) or (spare.pop(0) if spare else None)
        if plan is not None:
            one["found"] = writing(plan.site.form, plan.site.spelling, plan.site.alpha)
            one["written"] = writing(plan.form, plan.spelling, plan.alpha)
            one["module"] = one["module"] or plan.site.module
    return list(rows)


def near_misses(misses: Iterable[Miss]) -> list[NearMiss]:
    """What looks like a GELU and is none."""
    return [
        NearMiss(
            output=miss.output.name or "",
            input=miss.source.name or "",
            module=module_of(miss.nodes[-1]),
            form=miss.form,
            error=miss.error,
            reason=miss.reason,
        )
        for miss in misses
    ]

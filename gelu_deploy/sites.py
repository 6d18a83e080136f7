"""Sites as rows of a report: what was found, what was written, what the runtime made of it.

It joins what ``graph`` knows and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.graph.inlined import inlined
from gelu_deploy.graph.kernels import KernelIndex, Kernels
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
    """What the runtime makes of a hollow graph, its functions written out."""
    flat = inlined(model)
    return KernelIndex(runtime.optimised(flat.model, provider), flat)


def row(site: Site, index: KernelIndex | None) -> SiteResult:
    """One site as it stands in a graph; without an index nothing is said of kernels."""
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
    if site.function:
        one["function"] = site.function
    became = _became(one, index)
    why = reason(site, became.ops) if became.ops else became.reason
    return _with_kernels(one, replace(became, reason=why))


def renewed(rows: Iterable[SiteResult], index: KernelIndex | None) -> list[SiteResult]:
    """Rows that an artifact recorded, with the kernels of this runtime, or without an index with none."""
    return [_with_kernels(one, _became(one, index)) for one in rows]


def _became(one: SiteResult, index: KernelIndex | None) -> Kernels:
    return Kernels((), "") if index is None else index.of(one["input"], one["output"], one.get("function", ""))


def _with_kernels(one: SiteResult, became: Kernels) -> SiteResult:
    one["kernels"], one["reason"] = list(became.ops), ", ".join(filter(None, (became.reason, became.calls)))
    return one


def rewritten(rows: Sequence[SiteResult], plans: Sequence[tuple[str, Plan]]) -> list[SiteResult]:
    """The rows of the final graph with what was found and what was written, joined by output name, else by place."""
    by_name = {(plan.site.function, name): plan for name, plan in plans}
    names = [(one.get("function", ""), one["output"]) for one in rows]
    spare = [plan for name, plan in by_name.items() if name not in set(names)]
    for one, name in zip(rows, names, strict=True):
        plan = by_name.get(name) or (spare.pop(0) if spare else None)
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

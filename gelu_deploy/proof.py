"""Parity at its two levels, measured in the runtime: a network's outputs, and every site against its own form.

It needs no torch: what the original answered stands in the cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from gelu_deploy import gelu, parity, runtime
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.artifact.golden import Case
from gelu_deploy.graph.inlined import Ends, Inlined, inlined
from gelu_deploy.graph.taps import tapped
from gelu_deploy.parity import Limits
from gelu_deploy.results import SiteResult, Stage

Run = Callable[[Mapping[str, Array]], Arrays]
NOWHERE = Ends("", "")


def outputs(name: str, answers: Sequence[Arrays], cases: Sequence[Case], limits: Limits) -> Stage:
    """One line of the waterfall: these answers against what is expected, worst over all cases."""
    pairs = (
        (label, got.get(label, np.empty(0)), wanted)
        for got, case in zip(answers, cases, strict=True)
        for label, wanted in case.expected.items()
    )
    return parity.compare(name, pairs, limits)


def hollow_run(model: ir.Model, weights: Mapping[str, Array], *, optimise: bool = False, provider: str = "cpu") -> Run:
    """A hollow model ready to be run with its weights fed as inputs."""
    return runtime.Evaluation(model, weights, optimise=optimise, provider=provider)


def site_parity(
    model: ir.Model,
    weights: Mapping[str, Array],
    sites: Sequence[SiteResult],
    cases: Sequence[Case],
    provider: str,
) -> Stage:
    """Every site in the runtime, optimised, against the float64 reference of its own input.

    A site in a function is measured in each of its calls.
    """
    flat = inlined(model)
    taps = [(site, ends) for site in sites for ends in _ends(flat, site)]
    copy, shown = tapped(flat.model, (name for _, ends in taps for name in ends))
    run = hollow_run(copy, weights, optimise=True, provider=provider)
    return parity.site_stage("sites", _tapped(run, shown, taps, cases))


def unseen(model: ir.Model, sites: Sequence[SiteResult]) -> list[str]:
    """A note when :func:`site_parity` cannot reach every site: those in the bodies of If, Loop and Scan have no tap."""
    flat = inlined(model)
    known = {value.name for node in flat.model.graph for value in node.outputs}
    hidden = [one["output"] for one in sites if not known.issuperset(e.output for e in _ends(flat, one) or [NOWHERE])]
    if not hidden:
        return []
    return [f"GELUs in bodies are proved through the outputs alone; {len(hidden)} of them: {hidden[0]}, …"]


def _ends(flat: Inlined, site: SiteResult) -> Sequence[Ends]:
    return flat.ends(Ends(site["input"], site["output"], site.get("bias", "")), site.get("function", ""))


def _tapped(
    run: Run, shown: Mapping[str, str], taps: Sequence[tuple[SiteResult, Ends]], cases: Sequence[Case]
) -> Iterator[tuple[str, Array, Array, Array]]:
    for case in cases:
        values = run(case.inputs)
        for site, ends in taps:
            if ends.source not in shown or ends.output not in shown:
                continue
            x, y = -values[shown[ends.source]], -values[shown[ends.output]]
            x = x - values[shown[ends.bias]] if ends.bias in shown else x
            written = site.get("written")
            reference = gelu.FORMS[site["form"]].at(written.get("alpha") if written else None)
            yield site["module"] or site["output"], x, y, np.asarray(reference(x))


def verdict(stages: Sequence[Stage]) -> tuple[str, str]:
    """``pass`` or ``fail``, and the first stage that broke parity."""
    broken = next((stage for stage in stages if not stage["passed"]), None)
    if broken is None:
        return "pass", ""
    if not np.isfinite(broken["max_abs"]):
        what = "has another shape, or is NaN or infinite elsewhere"
    elif not np.isfinite(broken["ratio"]):
        what = f"is off by {broken['max_abs']:.2e}, where no difference is allowed"
    else:
        what = f"is off by {broken['max_abs']:.2e}, {broken['ratio']:.3g} times what is allowed"
    return "fail", f"{broken['name']} broke parity: {broken['worst']} {what}"

"""Functions written out where they are called, on a throw-away copy, under names that are known.

A runtime does the same when it loads a model, under names of its own, so that nothing can be joined to them. It knows
nothing of runtimes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from gelu_deploy.graph.places import name_of
from gelu_deploy.graph.recognize import Site, find

ORIGIN = "gelu_deploy.origin"
"""On a copied operator, for as long as it is in memory: the function and the name of the value that it made there."""


class Ends(NamedTuple):
    """Names of the values where a site begins and ends; ``bias`` is ``""`` without one."""

    source: str
    output: str
    bias: str = ""


@dataclass(frozen=True)
class Inlined:
    """A model without functions.

    Attributes:
        model: The copy; the model itself where there is no function, or they cannot be written out.
        copies: What became of each site of a function, by the function's name and the site's output: one for each call.
    """

    model: ir.Model
    copies: Mapping[tuple[str, str], Sequence[Ends]] = field(default_factory=dict[tuple[str, str], Sequence[Ends]])

    def ends(self, one: Ends, function: str = "") -> Sequence[Ends]:
        """Where a site is in ``model``: as it was, or once for each call of its ``function``."""
        return self.copies.get((function, one.output), ()) if function else (one,)


def inlined(model: ir.Model) -> Inlined:
    """``model`` with its functions written out on a copy, and its sites in them; the model is not changed."""
    if not model.functions:
        return Inlined(model)
    copy = model.clone()
    for function in copy.functions.values():
        _mark(function)
    try:
        InlinePass()(copy)
    except (ValueError, ir.passes.PassError):  # functions that call each other in a circle, or of another opset
        return Inlined(model)
    copies = defaultdict[tuple[str, str], list[Ends]](list)
    for site in find(copy).sites:
        origin = site.nodes[-1].meta.get(ORIGIN)
        if origin is not None and not site.function:  # functions that nobody calls stay
            copies[origin].append(ends_of(site))
    return Inlined(copy, dict(copies))


def ends_of(site: Site) -> Ends:
    """Names of the values where a site begins and ends."""
    bias = "" if site.bias is None else site.bias.name
    return Ends(site.source.name or "", site.output.name or "", bias or "")


def _mark(function: ir.Function) -> None:
    """Write on every operator where it comes from, and make names that no value outside the function has."""
    name = name_of(function)
    for node in function.all_nodes():
        node.meta[ORIGIN] = (name, node.outputs[0].name if node.outputs else "")
        for value in node.outputs:
            if value.name:
                value.name = f"{name}/{value.name}"

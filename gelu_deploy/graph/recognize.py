"""Every GELU of a model: decided by value, never by pattern, in every graph that the model has.

From each candidate it walks back to the single value that decides it and lets the function between the two be judged.
It changes nothing and knows nothing of runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import onnx_ir as ir

from gelu_deploy import gelu
from gelu_deploy.graph.arithmetic import operands, tensor_of
from gelu_deploy.graph.cone import Cone, Cones
from gelu_deploy.graph.judge import Float64, Verdict, judge
from gelu_deploy.graph.places import places
from gelu_deploy.graph.scopes import module_of

ANCHORS = {"Erf", "Tanh", "Sigmoid", "Exp", "Sign"}
"""Operators without which no spelling can bend."""
TAILS = {"Mul", "Div", "Add", "Sum", "Sub"}
"""Operators that can be the last of a spelling."""
REACH = 8
"""Operators from an anchor to the end of its spelling, at most."""
CONTRIB = {"Gelu": "erf", "FastGelu": "tanh", "QuickGelu": "sigmoid", "BiasGelu": "erf"}
CONTRIB_DOMAIN = "com.microsoft"
NOT_TAKEN_APART = {"BiasSplitGelu", "GemmFastGelu", "QOrderedGelu"}
"""Fused operators that do more than GELU: listed and left alone."""
FUSED = {*CONTRIB, *NOT_TAKEN_APART}


@dataclass(frozen=True)
class Site:
    """One GELU: ``output = scale · form(source [+ bias])``.

    Attributes:
        form: Name in ``gelu.FORMS``.
        spelling: ``ops``, ``gelu`` or ``contrib``.
        alpha: Slope, for the sigmoid form.
        source: The input value.
        output: The output value.
        nodes: The operators between, in topological order; the last one makes ``output``.
        graph: Where they stand: the main graph, a subgraph or a function.
        error: Largest distance to the form on the recognition grids.
        bias: Second input of a fused operator that adds one first.
        scale: Factor in front; 1 but where a tool has moved a ½ into the next weights.
        limit: What the spelling gives at −inf: NaN, or the 0 that it should be.
        function: Name of the function it stands in, as :func:`places.name_of` has it; ``""`` if in none.
    """

    form: str
    spelling: str
    alpha: float | None
    source: ir.Value
    output: ir.Value
    nodes: tuple[ir.Node, ...]
    graph: ir.Graph | ir.Function
    error: float = 0.0
    bias: ir.Value | None = None
    scale: float = 1.0
    limit: float = np.nan
    function: str = ""

    @property
    def module(self) -> str:
        """Dotted name of the PyTorch module it comes from."""
        return module_of(self.nodes[-1])

    @property
    def dtype(self) -> ir.DataType | None:
        """Type of its numbers: that of the result, or of the constants where the graph says nothing."""
        return self.output.dtype or self.source.dtype or dtype_of(self.nodes)


@dataclass(frozen=True)
class Miss:
    """A value that looks like a GELU and is none; ``reason`` says why."""

    form: str
    source: ir.Value
    output: ir.Value
    nodes: tuple[ir.Node, ...]
    error: float
    reason: str


@dataclass(frozen=True)
class Findings:
    """All sites of a model, graph by graph in topological order, and what came near."""

    sites: tuple[Site, ...]
    misses: tuple[Miss, ...]


def find(model: ir.Model, *, accept_error: float = 0.0) -> Findings:
    """Every GELU of a model. Linear in the number of nodes; the model is not changed.

    Args:
        model: Any model; shapes and types, where it has them, make the answer surer.
        accept_error: Distance to a form that is accepted although the table of tolerances would not.
    """
    sites, misses, verdicts = list[Site](), list[Miss](), dict[Any, Verdict | None]()
    for place in places(model):
        search = _Search(place.graph, place.cones, accept_error, verdicts)
        search.run()
        sites += [replace(site, function=place.function) if place.function else site for site in search.sites]
        misses += search.misses.values()
    return Findings(tuple(sites), tuple(misses))


@dataclass
class _Search:
    """The search of one graph; ``verdicts`` is shared, so that every spelling is judged once."""

    graph: ir.Graph | ir.Function
    cones: Cones
    accept_error: float
    verdicts: dict[Any, Verdict | None]
    sites: list[Site] = field(default_factory=list[Site])
    misses: dict[ir.Node, Miss] = field(default_factory=dict[ir.Node, Miss])
    taken: set[ir.Node] = field(default_factory=set[ir.Node])

    def __post_init__(self) -> None:
        self.bends = {node for op in ANCHORS for node in self.cones.by_op.get(op, ())}

    def run(self) -> None:
        """GELUs first; only what is left over may be a multiple of one, since x·(1+erf) is inside every x·(1+erf)·½."""
        candidates = self._candidates()
        scaled = list[Site]()
        for node in candidates:
            hit = self._fused(node) if _is_fused(node) else self._spelled(node.outputs[0])
            if isinstance(hit, Miss):
                self._keep_nearest(hit)
            elif hit is not None and hit.scale == 1:
                self._take(hit)
            elif hit is not None:
                scaled.append(hit)
        sources = {site.source for site in self.sites}
        for hit in scaled:
            anchors = self.bends.intersection(hit.nodes)
            if hit.source not in sources and anchors.isdisjoint(self.taken):
                self._take(hit)
        self.misses = {anchor: miss for anchor, miss in self.misses.items() if anchor not in self.taken}
        self.sites.sort(key=lambda site: self.cones.order[site.nodes[-1]])

    def _take(self, site: Site) -> None:
        self.sites.append(site)
        self.cones.boundary.add(site.output)
        self.taken.update(site.nodes)

    def _candidates(self) -> list[ir.Node]:
        """Fused operators, and every possible last operator a few steps behind an anchor, in topological order."""
        order, by_op = self.cones.order, self.cones.by_op
        found = {node for op in FUSED for node in by_op.get(op, ()) if _is_fused(node)}
        found.update(node for node in self._behind(filter(self.cones.evaluable, self.bends)) if node.op_type in TAILS)
        return sorted(found, key=order.__getitem__)

    def _behind(self, anchors: Iterable[ir.Node]) -> set[ir.Node]:
        """``anchors`` and the element-wise operators up to ``REACH`` steps after them."""
        latest = set(anchors)
        found = set(latest)
        for _ in range(REACH):
            latest = {user for node in latest for user in self._users(node)} - found
            found |= latest
        return found

    def _users(self, node: ir.Node) -> Sequence[ir.Node]:
        users = [user for user, _ in node.outputs[0].uses() if self.cones.evaluable(user)]
        return users if len(users) <= 4 * REACH else ()

    def _spelled(self, output: ir.Value) -> Site | Miss | None:
        """The site or near miss that ends in ``output``, from the nearest source for which it is one."""
        nearest: Miss | None = None
        for cone in islice(self.cones.sources(output, self.bends), REACH):
            hit = self._judged(cone, output)
            if isinstance(hit, Site):
                return hit
            if hit is not None and (nearest is None or hit.error < nearest.error):
                nearest = hit
        return nearest

    def _judged(self, cone: Cone, output: ir.Value) -> Site | Miss | None:
        verdict = self._verdict(cone, output)
        if verdict is None:
            return None
        reason = verdict.reason or self._unfit(cone, output)
        if reason and verdict.scale != 1:
            return None
        nodes = tuple(cone.nodes)
        if reason:
            return Miss(verdict.form, cone.source, output, nodes, verdict.error, reason)
        return Site(
            verdict.form,
            "ops",
            verdict.alpha,
            cone.source,
            output,
            nodes,
            self.graph,
            error=verdict.error,
            scale=verdict.scale,
            limit=verdict.limit,
        )

    def _verdict(self, cone: Cone, output: ir.Value) -> Verdict | None:
        dtype = output.dtype or cone.source.dtype or dtype_of(cone.nodes) or ir.DataType.FLOAT
        key = (dtype, cone.key)
        if key not in self.verdicts:

            def function(at: Float64) -> Float64:
                return self.cones.evaluate(cone, at)

            self.verdicts[key] = judge(function, dtype.numpy().name, accept_error=self.accept_error)
        return self.verdicts[key]

    def _unfit(self, cone: Cone, output: ir.Value) -> str:
        """Why a function that is a GELU is no site, ``""`` if it is one."""
        source = cone.source
        known = source.shape is not None and output.shape is not None and source.shape == output.shape
        if not known and not self.cones.keeps_shape(cone):
            return "a constant in it changes the shape of the result"
        if output.dtype is None and any(node.op_type == "Cast" for node in cone.nodes):
            return "its types are not known"
        return ""

    def _fused(self, node: ir.Node) -> Site | Miss | None:
        """A fused operator, recognised by its name and attributes."""
        source, output = node.inputs[0], node.outputs[0]
        if source is None:
            return None
        if node.op_type in NOT_TAKEN_APART:
            return Miss("erf", source, output, (node,), 0.0, f"{node.op_type} does more than a GELU")
        if node.domain != CONTRIB_DOMAIN:
            form = "tanh" if node.attributes.get_string("approximate", "none") == "tanh" else "erf"
            return Site(form, "gelu", None, source, output, (node,), self.graph)
        form, bias = CONTRIB[node.op_type], node.inputs[1] if len(node.inputs) > 1 else None
        if form != "sigmoid":
            return Site(form, "contrib", None, source, output, (node,), self.graph, bias=bias)
        slope = node.attributes.get_float("alpha", gelu.ALPHA)

        def function(at: Float64) -> Float64:
            return gelu.sigmoid_form(at, slope)

        dtype = (source.dtype or ir.DataType.FLOAT).numpy().name
        verdict = judge(function, dtype, accept_error=self.accept_error)
        if verdict is None or not verdict.accepted or verdict.form != "sigmoid":
            reason = "" if verdict is None else verdict.reason
            error = np.inf if verdict is None else verdict.error
            return Miss(form, source, output, (node,), error, reason or f"QuickGelu with α = {slope:.6g}")
        return Site(form, "contrib", verdict.alpha, source, output, (node,), self.graph, error=verdict.error)

    def _keep_nearest(self, miss: Miss) -> None:
        """One near miss for each anchor: the nearest, and among equals the first."""
        anchor = next((node for node in miss.nodes if node.op_type in ANCHORS), miss.nodes[-1])
        if anchor not in self.misses or miss.error < self.misses[anchor].error:
            self.misses[anchor] = miss


def dtype_of(nodes: Iterable[ir.Node]) -> ir.DataType | None:
    """Type of the first float constant that ``nodes`` read: what they compute in, where the graph does not say."""
    tensors = (tensor_of(value) for node in nodes for value in operands(node) if value is not None)
    return next((t.dtype for t in tensors if t is not None and t.dtype.is_floating_point()), None)


def _is_fused(node: ir.Node) -> bool:
    if node.domain == CONTRIB_DOMAIN:
        return node.op_type in CONTRIB or node.op_type in NOT_TAKEN_APART
    return node.op_type == "Gelu" and node.domain in {"", "ai.onnx"}

"""Is this value a GELU: of which input, in which form, how far off? Decided by value, never by pattern.

From each candidate it walks back to the single value that decides it, evaluates the operators between as a function,
and takes the nearest form. It changes nothing and knows nothing of runtimes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from gelu_deploy import gelu
from gelu_deploy.graph.cone import Cones, elementwise
from gelu_deploy.graph.scopes import module_of
from gelu_deploy.parity import tolerance

GRID: NDArray[np.float64] = np.concatenate([np.linspace(-6, 6, 241), [-40.0, -12.0, 12.0, 40.0]])
FUNCTIONS = gelu.functions()
KNOWN: NDArray[np.float64] = np.stack([function(GRID) for _, _, function in FUNCTIONS])

ANCHORS = {"Erf", "Tanh", "Sigmoid", "Exp"}
"""Operators without which no spelling can bend."""
TAILS = {"Mul", "Div", "Add", "Sum"}
"""Operators that can be the last of a spelling."""
REACH = 8
"""Operators from an anchor to the end of its spelling, at most."""
NEAR = 0.05
"""A function nearer than this to a form is worth a line in the report."""
CONTRIB = {"Gelu": "erf", "FastGelu": "tanh", "QuickGelu": "sigmoid", "BiasGelu": "erf"}


@dataclass(frozen=True)
class Site:
    """One GELU: ``output = form(source [+ bias])``.

    Attributes:
        form: Name in ``gelu.FORMS``.
        spelling: ``ops``, ``gelu`` or ``contrib``.
        alpha: Slope, for the sigmoid form.
        source: The input value.
        output: The output value.
        nodes: The operators between, in topological order; the last one makes ``output``.
        error: Largest distance to the form on the recognition grid.
        bias: Second input of a fused operator that adds one first.
    """

    form: str
    spelling: str
    alpha: float | None
    source: ir.Value
    output: ir.Value
    nodes: tuple[ir.Node, ...]
    error: float
    bias: ir.Value | None = None

    @property
    def module(self) -> str:
        """Dotted name of the PyTorch module it comes from."""
        return module_of(self.nodes[-1])


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
    """All sites of a model in topological order, and what came near."""

    sites: tuple[Site, ...]
    misses: tuple[Miss, ...]


def find(model: ir.Model) -> Findings:
    """Every GELU of the top-level graph. Linear in the number of nodes; the model is not changed."""
    cones = Cones(model.graph, overridable=(model.ir_version or 0) >= 4)
    sites, misses = list[Site](), dict[ir.Node, Miss]()
    for node in _candidates(cones):
        hit = _fused(node) if _is_fused(node) else _spelled(node.outputs[0], cones)
        if isinstance(hit, Site):
            sites.append(hit)
            cones.boundary.add(hit.output)
        elif isinstance(hit, Miss):
            _keep_nearest(misses, hit)
    taken = {node for site in sites for node in site.nodes}
    return Findings(tuple(sites), tuple(miss for anchor, miss in misses.items() if anchor not in taken))


def _candidates(cones: Cones) -> list[ir.Node]:
    """Fused operators, and every possible last operator a few steps behind an anchor, in topological order."""
    found = {node for node in cones.order if _is_fused(node)}
    for anchor in (node for node in cones.order if node.op_type in ANCHORS and elementwise(node)):
        found.update(node for node in _behind(anchor) if node in cones.order and node.op_type in TAILS)
    return sorted(found, key=cones.order.__getitem__)


def _behind(anchor: ir.Node) -> Iterable[ir.Node]:
    """The element-wise operators up to ``REACH`` steps after ``anchor``."""
    seen, queue = {anchor}, deque([(anchor, 0)])
    while queue:
        node, steps = queue.popleft()
        yield node
        users = [user for user, _ in node.outputs[0].uses() if user not in seen and elementwise(user)]
        if steps < REACH and len(users) <= 4 * REACH:
            seen.update(users)
            queue.extend((user, steps + 1) for user in users)


def _spelled(output: ir.Value, cones: Cones) -> Site | Miss | None:
    """The site or near miss that ends in ``output``, from the nearest source for which it is one."""
    nearest: Miss | None = None
    bent = ((s, cone) for s, cone in cones.sources(output) if any(node.op_type in ANCHORS for node in cone))
    for source, cone in islice(bent, REACH):
        hit = _judge(source, output, cone, cones)
        if isinstance(hit, Site):
            return hit
        if hit is not None and (nearest is None or hit.error < nearest.error):
            nearest = hit
    return nearest


def _judge(source: ir.Value, output: ir.Value, cone: list[ir.Node], cones: Cones) -> Site | Miss | None:
    seen = cones.evaluate(source, cone, GRID)
    with np.errstate(invalid="ignore"):
        errors = np.abs(seen - KNOWN).max(axis=1)
    best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
    form, alpha, _ = FUNCTIONS[best]
    error, nodes = float(errors[best]), tuple(cone)
    slope = _slope(seen)
    if slope is not None and not error <= _allowed(source):
        return Miss("sigmoid", source, output, nodes, error, f"x·σ({slope:.6g}·x); the form has α = {gelu.ALPHA}")
    if not error <= NEAR:
        return None
    if not error <= _allowed(source):
        return Miss(form, source, output, nodes, error, f"GELU-like, off by {error:.1e}")
    if source.dtype is not None and output.dtype is not None and source.dtype != output.dtype:
        return Miss(form, source, output, nodes, error, f"its type changes from {source.dtype} to {output.dtype}")
    if not _same_shape(source, output) and not cones.keeps_shape(source, cone):
        return Miss(form, source, output, nodes, error, "a constant in it changes the shape of the result")
    return Site(form, "ops", alpha, source, output, nodes, error)


def _allowed(source: ir.Value) -> float:
    name = "float32" if source.dtype is None else str(source.dtype.numpy().name)
    return tolerance(name).form


def _slope(seen: NDArray[np.float64]) -> float | None:
    """α if the function is x·σ(αx) for any α; None otherwise."""
    at_one = float(seen[np.argmin(np.abs(GRID - 1))])
    if not 0.5 < at_one < 1:
        return None
    alpha = float(np.log(at_one / (1 - at_one)))
    with np.errstate(invalid="ignore"):
        same = np.abs(gelu.sigmoid_form(GRID, alpha) - seen).max() < 1e-5
    return alpha if same else None


def _same_shape(source: ir.Value, output: ir.Value) -> bool:
    return source.shape is not None and output.shape is not None and source.shape == output.shape


def _is_fused(node: ir.Node) -> bool:
    if node.domain == "com.microsoft":
        return node.op_type in CONTRIB
    return node.op_type == "Gelu" and node.domain in ("", "ai.onnx")


def _fused(node: ir.Node) -> Site | Miss | None:
    """A fused operator, recognised by its name and attributes."""
    source, output = node.inputs[0], node.outputs[0]
    if source is None:
        return None
    if node.domain != "com.microsoft":
        approximate = node.attributes.get_string("approximate", "none")
        form = "tanh" if approximate == "tanh" else "erf"
        return Site(form, "gelu", None, source, output, (node,), 0.0)
    bias = node.inputs[1] if len(node.inputs) > 1 else None
    form = CONTRIB[node.op_type]
    if form != "sigmoid":
        return Site(form, "contrib", None, source, output, (node,), 0.0, bias)
    slope = node.attributes.get_float("alpha", gelu.ALPHA)
    alpha = min(gelu.FORMS["sigmoid"].alphas, key=lambda known: abs(known - slope))
    error = float(np.abs(gelu.sigmoid_form(GRID, slope) - gelu.sigmoid_form(GRID, alpha)).max())
    if error > _allowed(source):
        return Miss(form, source, output, (node,), error, f"x·σ({slope:.6g}·x); the form has α = {gelu.ALPHA}")
    return Site(form, "contrib", alpha, source, output, (node,), error)


def _keep_nearest(misses: dict[ir.Node, Miss], miss: Miss) -> None:
    """One near miss for each anchor: the nearest, and among equals the first."""
    anchor = next((node for node in miss.nodes if node.op_type in ANCHORS), miss.nodes[-1])
    if anchor not in misses or miss.error < misses[anchor].error:
        misses[anchor] = miss

"""Which kernels a site became: read from the graph that the runtime itself optimised, joined by value name.

It knows nothing of how that graph is obtained.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import onnx_ir as ir

from gelu_deploy.graph.inlined import Ends, Inlined

FUSED = {"Gelu", "FastGelu", "QuickGelu", "BiasGelu", "BiasSplitGelu", "GemmFastGelu"}
"""Operators of the runtime that compute a whole GELU; some also take in the bias before it."""
LOST = "the runtime folded it into its neighbours under another name"
WIDENED = "InsertedPrecisionFreeCast_"
"""What the runtime puts before the name of a 16-bit value that it computes in float32 instead."""


UNKNOWN = "it stands in a function that is called nowhere, or that cannot be written out where it is called"


@dataclass(frozen=True)
class Kernels:
    """Operators that compute one site, in order, and why they are not one (``""`` when they are).

    Attributes:
        ops: The operators; where the calls of a function differ, those of the call with the most.
        reason: Why they are not one.
        calls: In how many calls of its function it became these, ``""`` where that is in all.
    """

    ops: tuple[str, ...]
    reason: str
    calls: str = ""


class KernelIndex:
    """Values of an optimised graph by name, subgraphs included.

    Args:
        optimised: The graph that the runtime made.
        inlined: What it was made of, where that had functions.
    """

    def __init__(self, optimised: ir.Model, inlined: Inlined | None = None) -> None:
        self._inlined = inlined
        self._values = {
            value.name: value for node in optimised.graph.all_nodes() for value in node.outputs if value.name
        }

    def of(self, source: str, output: str, function: str = "") -> Kernels:
        """The kernels between the values named ``source`` and ``output``, of the function of this name."""
        if not function or self._inlined is None:
            return self._one(source, output)
        became = [self._one(at.source, at.output) for at in self._inlined.ends(Ends(source, output), function)]
        if not became:
            return Kernels((), UNKNOWN)
        most = max(became, key=lambda kernels: (not kernels.ops, len(kernels.ops)))
        same = became.count(most)
        return most if same == len(became) else replace(most, calls=f"in {same} of {len(became)} calls")

    def _one(self, source: str, output: str) -> Kernels:
        value = self._computed(output)
        if value is None:
            return Kernels((), LOST)
        ops = tuple(node.op_type for node in _between({source, f"{WIDENED}{source}"}, value))
        return Kernels(ops, "" if len(ops) == 1 else f"the runtime left {len(ops)} operators")

    def _computed(self, output: str) -> ir.Value | None:
        """The value of this name, or the one in float32 that is only rounded to it."""
        wide = self._values.get(f"{WIDENED}{output}")
        maker = None if wide is None else wide.producer()
        return self._values.get(output) if maker is None or maker.op_type == "Cast" else wide


def _between(sources: set[str], output: ir.Value) -> list[ir.Node]:
    """The producer of ``output`` if it is a fused GELU, else every operator back to one of ``sources``."""
    last = output.producer()
    assert last is not None
    if last.op_type in FUSED:
        return [last]
    found, queue = dict.fromkeys([last]), deque([last])
    while queue and len(found) < 32:
        for value in queue.popleft().inputs:
            node = None if value is None or value.name in sources else value.producer()
            if node is not None and node not in found and node.op_type not in ("Constant", "MatMul", "Gemm", "Conv"):
                found[node] = None
                queue.append(node)
    return list(found)[::-1]

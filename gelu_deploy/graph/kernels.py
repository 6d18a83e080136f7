"""Which kernels a site became: read from the graph that the runtime itself optimised, joined by value name.

It knows nothing of how that graph is obtained.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import onnx_ir as ir

FUSED = {"Gelu", "FastGelu", "QuickGelu", "BiasGelu", "BiasSplitGelu", "GemmFastGelu"}
"""Operators of the runtime that compute a whole GELU; some also take in the bias before it."""
LOST = "the runtime folded it into its neighbours under another name"
WIDENED = "InsertedPrecisionFreeCast_"
"""What the runtime puts before the name of a 16-bit value that it computes in float32 instead."""


@dataclass(frozen=True)
class Kernels:
    """Operators that compute one site, in order, and why they are not one (``""`` when they are)."""

    ops: tuple[str, ...]
    reason: str


class KernelIndex:
    """Values of an optimised graph by name, subgraphs included."""

    def __init__(self, optimised: ir.Model) -> None:
        self._values = {
            value.name: value for node in optimised.graph.all_nodes() for value in node.outputs if value.name
        }

    def of(self, source: str, output: str) -> Kernels:
        """The kernels between the values named ``source`` and ``output``."""
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

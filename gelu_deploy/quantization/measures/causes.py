"""Why an INT8 model is not faster: what of it the runtime does not compute in integers, or gains nothing by.

It reads what :mod:`coverage` found, counts, and names the largest; it measures no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from gelu_deploy.quantization.measures.coverage import FELL_BACK, INTEGER, LEFT, NO_WEIGHT, Coverage, Covered

TINY = 2**16
"""Multiply-accumulates of one call below which a layer gains no more than its QuantizeLinear and dispatch cost.

On a CPU with AVX2, one thread, they are equal at 2**14 for one row (128 wide) and at 2**18 for 16 rows (128 wide).
"""
BOUNDARIES = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
MOVES = {
    "Reshape",
    "Transpose",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Concat",
    "Split",
    "Slice",
    "Gather",
    "Shape",
    "Expand",
    "Cast",
}
"""Operators that compute nothing."""


@dataclass(frozen=True)
class Cause:
    """One reason.

    Attributes:
        kind: ``fell back``, ``float layers``, ``attention``, ``ConvInteger``, ``tiny layers`` or ``float islands``.
        count: How many layers, products or islands it concerns.
        share: Their share of the multiply-accumulates; 0 for islands, which multiply nothing.
        text: The reason for a person.
    """

    kind: str
    count: int
    share: float
    text: str


def causes(found: Coverage, *, batch: int = 1) -> list[Cause]:
    """Every reason there is, the one with the largest share of the multiply-accumulates first.

    Args:
        found: What the runtime made of the model.
        batch: Elements of a batch, on which it depends what is a tiny layer.
    """
    slow = [one for one in found.layers if "ConvInteger" in one.kernels]
    tiny = [one for one in found.layers if found.sized and one.integer and one.macs * batch < TINY]
    reasons = [
        (
            "fell back",
            [one for one in found.layers if one.reason == FELL_BACK],
            "dequantized at every call and multiplied in float",
        ),
        ("float layers", [one for one in (*found.layers, *found.others) if one.reason == LEFT], "left in float"),
        (
            "attention",
            [one for one in found.others if one.reason == NO_WEIGHT],
            "between two activations, left in float",
        ),
        ("ConvInteger", slow, "computed by ConvInteger, which is slower than the float Conv: use static INT8"),
        ("tiny layers", tiny, "too small to gain more than quantizing their input costs"),
    ]
    made = [_cause(kind, ones, words, found.macs) for kind, ones, words in reasons if ones]
    islands = list(_islands(found.graph.graph))
    if islands:
        made.append(Cause("float islands", len(islands), 0.0, _between(islands)))
    return sorted(made, key=lambda cause: (-cause.share, -cause.count))


def _cause(kind: str, ones: Sequence[Covered], words: str, total: int) -> Cause:
    share = sum(one.macs for one in ones) / max(total, 1)
    what = "product" if kind == "attention" else "layer"
    named = ", ".join(dict.fromkeys(one.name for one in ones[:3])) + (", …" if len(ones) > 3 else "")
    text = f"{len(ones)} {what}{'s' * (len(ones) > 1)}, {share:.1%} of the multiplications, {words} ({named})"
    return Cause(kind, len(ones), share, text)


def _between(islands: Sequence[set[ir.Node]]) -> str:
    kinds = Counter(node.op_type for island in islands for node in island if node.op_type not in MOVES)
    most = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:4]
    named = ", ".join(f"{count} {kind}" for kind, count in most) or "nothing but moves"
    s = "s" * (len(islands) > 1)
    return f"{len(islands)} float island{s} between integer operators, with a pass to float and one back each ({named})"


def _islands(graph: ir.Graph) -> Iterator[set[ir.Node]]:
    """Float operators that hang together, dequantized before and quantized after."""
    seen = set[ir.Node]()
    for start in graph:
        if start in seen or not _is_float(start):
            continue
        island, queue, around = {start}, [start], set[str]()
        for node in queue:
            makers = [value.producer() for value in node.inputs if value is not None]
            around |= {"in" for maker in makers if maker is not None and maker.op_type == "DequantizeLinear"}
            users = [user for value in node.outputs for user in value.consumers()]
            around |= {"out" for user in users if user.op_type == "QuantizeLinear"}
            for other in (*makers, *users):
                if other is not None and other not in island and _is_float(other):
                    island.add(other)
                    queue.append(other)
        seen |= island
        if around == {"in", "out"}:
            yield island


def _is_float(node: ir.Node) -> bool:
    return node.op_type not in BOUNDARIES and node.op_type not in INTEGER

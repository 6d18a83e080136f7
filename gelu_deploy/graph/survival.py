"""Why a site is not one kernel: what about it, as it stands in the file, keeps the runtime from fusing it.

The rules are ONNX Runtime's (gelu.md, section 2a); which kernels there are is ``kernels``' business.
"""

from __future__ import annotations

import onnx_ir as ir

from gelu_deploy.graph.arithmetic import operands, tensor_of
from gelu_deploy.graph.recognize import Site

ADVICE = "export writes it as one that the runtime fuses"


def reason(site: Site, ops: tuple[str, ...]) -> str:
    """One line for a site that became ``ops``; ``""`` if that is one kernel."""
    if len(ops) == 1:
        return ""
    dtype = site.dtype
    if dtype is not None and dtype != ir.DataType.FLOAT:
        return f"the runtime has no {dtype.numpy().name} kernel for it on this provider and left {len(ops)} operators"
    producer = site.source.producer()
    if producer is not None and producer.op_type == "DequantizeLinear":
        return "its input is dequantized: the runtime gives every reader its own copy and sees no single root"
    if site.output.is_graph_output() and "Tanh" in ops:
        return "a tanh GELU that is itself an output of the graph stays open; --spelling contrib closes it"
    return _inner(site) or f"the runtime does not know this order of its operators; {ADVICE}"


def _inner(site: Site) -> str:
    """What is wrong with a value or a constant inside it."""
    inside = set(site.nodes)
    for node in site.nodes[:-1]:
        value = node.outputs[0]
        if value.is_graph_output():
            return f"its inner value {value.name} is an output of the graph"
        if any(user not in inside for user, _ in value.uses()):
            return f"its inner value {value.name} has another reader"
    constants = (value for node in site.nodes for value in operands(node) if value is not None)
    ranks = [len(tensor.shape) for value in constants if (tensor := tensor_of(value)) is not None]
    if max(ranks, default=0) > 1:
        return f"its constants have {max(ranks)} axes where the runtime takes scalars; {ADVICE}"
    return ""

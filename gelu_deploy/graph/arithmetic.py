"""Which nodes can be evaluated, and constants as numbers.

It knows single nodes and tensors; graphs are ``cone``'s business.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from gelu_deploy.gelu.operators import EVALUATE

FIRST_ONLY = {"CastLike", "Dropout", "Cast", "Identity"}
FLOATS = {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE}
UNIFORM_LIMIT = 1 << 22
"""Elements of a constant that are looked at to see whether they are all the same number."""


def operands(node: ir.Node) -> Sequence[ir.Value | None]:
    """The inputs of ``node`` that its value depends on."""
    return node.inputs[:1] if node.op_type in FIRST_ONLY else node.inputs


def elementwise(node: ir.Node | None) -> bool:
    """Whether ``node`` can be evaluated here."""
    if node is None or (op := node.op_type) not in EVALUATE or node.domain not in {"", "ai.onnx"}:
        return False
    if op == "Cast":
        target = node.attributes.get("to")
        if target is None or target.is_ref() or target.as_int() not in FLOATS:
            return False
    read = operands(node)
    if op == "Clip":  # its bounds may be missing; before opset 11 they are attributes
        read = () if node.attributes else read[:1]
    return len(read) > 0 and None not in read


def tensor_of(value: ir.Value) -> ir.TensorProtocol | None:
    """The constant tensor of a value, if it has one."""
    try:
        return ir.convenience.get_const_tensor(value)
    except ValueError:  # a Constant node without exactly one attribute: not valid, not ours to judge
        return None


def uniform(tensor: ir.TensorProtocol | None) -> float | None:
    """The number that every element of ``tensor`` is; None when they differ, or it holds no numbers."""
    if tensor is None or not 0 < tensor.size <= UNIFORM_LIMIT or tensor.dtype == ir.DataType.STRING:
        return None
    flat = np.asarray(tensor.numpy()).reshape(-1)
    if flat.dtype.kind == "c" or (flat[0] != flat[-1]) or (flat.size > 2 and (flat != flat[0]).any()):
        return None
    return float(flat[0])

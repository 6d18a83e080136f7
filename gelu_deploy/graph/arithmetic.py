"""Element-wise operators as functions of float64 arrays, and constants as numbers.

It knows single nodes and tensors; graphs are ``cone``'s business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

_elementwise_erf = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Any) -> Any:
    return np.asarray(_elementwise_erf(x), np.float64)


def _sigmoid(x: Any) -> Any:
    decayed = np.exp(-np.abs(x))
    return np.where(np.asarray(x) < 0, decayed, 1.0) / (1 + decayed)


def _sum(*terms: Any) -> Any:
    return reduce(np.add, terms)


def _min(*terms: Any) -> Any:
    return reduce(np.minimum, terms)


def _max(*terms: Any) -> Any:
    return reduce(np.maximum, terms)


def _same(x: Any) -> Any:
    return x


EVALUATE: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Neg": np.negative,
    "Abs": np.abs,
    "Sign": np.sign,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Reciprocal": np.reciprocal,
    "Erf": _erf,
    "Tanh": np.tanh,
    "Sigmoid": _sigmoid,
    "Sum": _sum,
    "Min": _min,
    "Max": _max,
    "Identity": _same,
    "Cast": _same,
    "CastLike": _same,
    "Dropout": _same,
}
"""Operators of the default domain."""

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

"""ONNX's element-wise operators as functions of float64 arrays. It needs only numpy and knows nothing of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

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


def _clip(x: Any, low: Any = -np.inf, high: Any = np.inf) -> Any:
    return np.minimum(np.maximum(x, low), high)


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
    "Clip": _clip,
    "Identity": _same,
    "Cast": _same,
    "CastLike": _same,
    "Dropout": _same,
}
"""Operators of the default domain."""

"""Every spelling of GELU that real producers write, and what only looks like one; numbers as in the catalogue."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from graphs import Expression, Formula, erf, exp, op, sigmoid, tanh

R2, S, K, Q = math.sqrt(2), math.sqrt(2 / math.pi), 0.044715, 1.702


class Spelling(NamedTuple):
    """A formula and the form that it is."""

    name: str
    form: str
    formula: Formula


def _u(x: Expression) -> Expression:
    return S * (x + K * x**3.0)


def _expanded(x: Expression) -> Expression:
    h = x * 0.5
    return h + h * erf(x / R2)


def _expanded_tanh(x: Expression) -> Expression:
    h = 0.5 * x
    return h + h * tanh(_u(x))


def _function_body(x: Expression) -> Expression:
    def like(number: float) -> Expression:
        return op("CastLike", x.writer.op("Identity", number), x)

    gate = op("Sum", like(1.0), erf(x / op("Sqrt", like(2.0))))
    return (like(0.5) * x) * gate


def _function_body_tanh(x: Expression) -> Expression:
    def like(number: float) -> Expression:
        return op("CastLike", x.writer.op("Identity", number), x)

    inner = op("Sum", x, like(K) * (x ** like(3.0)))
    gate = op("Sum", like(1.0), tanh(op("Sqrt", like(2.0) / like(math.pi)) * inner))
    return (like(0.5) * x) * gate


def _ones(x: Expression) -> Expression:
    return op("ConstantOfShape", op("Shape", x), value=_one(x))


def _one(x: Expression) -> object:
    import onnx_ir as ir

    return ir.tensor(np.array([1], x.writer.dtype.numpy()))


def _expand(x: Expression) -> Expression:
    return op("Expand", x.writer.op("Identity", 1.0), op("Shape", x))


POSITIVES = [
    Spelling("01 torchscript", "erf", lambda x: (x * (erf(x / R2) + 1)) * 0.5),
    Spelling("02 half last, left", "erf", lambda x: 0.5 * (x * (1 + erf(x / R2)))),
    Spelling("03 dynamo 18, keras", "erf", lambda x: x * (0.5 * (erf(x / R2) + 1))),
    Spelling("04 normal cdf", "erf", lambda x: x * ((erf(x / R2) + 1) * 0.5)),
    Spelling("04 normal.cdf with its no-ops", "erf", lambda x: x * ((erf((x - 0.0) * 1.0 / R2) + 1) * 0.5)),
    Spelling("05 gelu_python", "erf", lambda x: (x * 0.5) * (erf(x / R2) + 1)),
    Spelling("06 tf, swapped", "erf", lambda x: (1 + erf(x / R2)) * (0.5 * x)),
    Spelling("07 megatron, constant of shape", "erf", lambda x: x * 0.5 * (erf(x / 1.41421) + _ones(x))),
    Spelling("07 megatron, expand", "erf", lambda x: x * 0.5 * (erf(x / 1.41421) + _expand(x))),
    Spelling("08 short root of two", "erf", lambda x: x * 0.5 * (1.0 + erf(x / 1.4142))),
    Spelling("09 mul by 1/sqrt2", "erf", lambda x: (x * (erf(x * (1 / R2)) + 1)) * 0.5),
    Spelling("10 tf grappler", "erf", lambda x: x * (0.5 * (1 + erf((1 / R2) * x)))),
    Spelling("11 tf2", "erf", lambda x: (0.5 * x) * (1 + erf(x * (1 / R2)))),
    Spelling("13 erfc", "erf", lambda x: (x * 0.5) * (1 - erf((-x) * (1 / R2)))),
    Spelling("14 erfc, constant negated", "erf", lambda x: (x * 0.5) * (1 - erf(x * (-1 / R2)))),
    Spelling("14 erfc, div", "erf", lambda x: (x * 0.5) * (1 - erf((-x) / R2))),
    Spelling("14 erfc, add neg", "erf", lambda x: (x * 0.5) * (1 + (-erf((-x) / R2)))),
    Spelling("15 half distributed", "erf", lambda x: x * (erf(x * (1 / R2)) * 0.5 + 0.5)),
    Spelling("16 expanded", "erf", _expanded),
    Spelling("17 sqrt node", "erf", lambda x: x * 0.5 * (1 + erf(x / op("Sqrt", x.writer.op("Identity", 2.0))))),
    Spelling("17 pow node", "erf", lambda x: x * 0.5 * (1 + erf(x / (x.writer.op("Identity", 2.0) ** 0.5)))),
    Spelling("18 function body", "erf", _function_body),
    Spelling("19 no-op casts", "erf", lambda x: x * 0.5 * (1 + op("Cast", erf(x / R2), to=1))),
    Spelling("20 half by division", "erf", lambda x: (x / 2) * (1 + erf(x / R2))),
    Spelling("20 half by division, last", "erf", lambda x: (x * (1 + erf(x / R2))) / 2),
    Spelling("25 gelu_new", "tanh", lambda x: 0.5 * x * (1 + tanh(S * (x + K * x**3.0)))),
    Spelling("25 gelu_new, swapped", "tanh", lambda x: (x * 0.5) * (tanh((x + (x**3.0) * K) * S) + 1)),
    Spelling("25 integer exponent", "tanh", lambda x: 0.5 * x * (1 + tanh(S * (x + K * x ** np.array(3))))),
    Spelling("26 dynamo 18", "tanh", lambda x: x * (0.5 * (tanh(S * (x + K * x**3.0)) + 1))),
    Spelling("27 jax", "tanh", lambda x: x * (0.5 * (1 + tanh(S * (x + K * (x * (x * x))))))),
    Spelling("27 jax, left", "tanh", lambda x: x * (0.5 * (1 + tanh(S * (x + K * ((x * x) * x)))))),
    Spelling("28 torchscript", "tanh", lambda x: 0.5 * (x * (1 + tanh(S * (x + K * (x * (x * x))))))),
    Spelling("29 half last, pow", "tanh", lambda x: 0.5 * (x * (1 + tanh(S * (x + K * x**3.0))))),
    Spelling("30 half first, cube by products", "tanh", lambda x: (0.5 * x) * (1 + tanh(S * (x + K * (x * x * x))))),
    Spelling("31 megatron, gelu_fast", "tanh", lambda x: (x * 0.5) * (tanh((x * S) * (1 + (x * K) * x)) + 1)),
    Spelling("32 llama.cpp", "tanh", lambda x: (x * 0.5) * (tanh((x * S) * (1 + K * (x * x))) + 1)),
    Spelling("33 megatron, half last", "tanh", lambda x: (x * (tanh((x * S) * (1 + (x * K) * x)) + 1)) * 0.5),
    Spelling("34 s outside", "tanh", lambda x: (x * 0.5) * (tanh(S * (x * (1 + (K * x) * x))) + 1)),
    Spelling("35 left association", "tanh", lambda x: 0.5 * x * (1 + tanh(S * (K * x * x * x + x)))),
    Spelling("36 FastGelu body", "tanh", lambda x: 0.5 * (x * (1 + tanh(x * (S + (S * K) * (x * x)))))),
    Spelling("37 s folded", "tanh", lambda x: 0.5 * (x * (1 + tanh(S * x + (S * K) * x**3.0)))),
    Spelling(
        "38 computed s",
        "tanh",
        lambda x: 0.5 * x * (1 + tanh(op("Sqrt", x.writer.op("Identity", 2.0) / math.pi) * (x + K * x**3.0))),
    ),
    Spelling("38 one unit lower", "tanh", lambda x: 0.5 * x * (1 + tanh(0.797884524 * (x + K * x**3.0)))),
    Spelling("39 function body", "tanh", _function_body_tanh),
    Spelling("40 expanded tail", "tanh", _expanded_tanh),
    Spelling("41 through sigmoid", "tanh", lambda x: x * sigmoid(2 * S * (x + K * x**3.0))),
    Spelling("41 through exp", "tanh", lambda x: x * (1 - 1 / (1 + exp((2 * S) * (x + K * x**3.0))))),
    Spelling("44 short s", "tanh", lambda x: 0.5 * x * (1 + tanh(0.79788 * (x + K * x**3.0)))),
    Spelling("44 short s and k", "tanh", lambda x: 0.5 * x * (1 + tanh(0.7978 * (x + 0.0447 * x**3.0)))),
    Spelling("45 quick_gelu", "sigmoid", lambda x: x * sigmoid(x * Q)),
    Spelling("46 swapped", "sigmoid", lambda x: sigmoid(Q * x) * x),
    Spelling("47 1.7", "sigmoid", lambda x: x * sigmoid(1.7 * x)),
    Spelling("47 bfloat16", "sigmoid", lambda x: x * sigmoid(1.703125 * x)),
    Spelling("47 float16", "sigmoid", lambda x: x * sigmoid(1.70214844 * x)),
    Spelling("49 exp", "sigmoid", lambda x: x / (1 + exp(-Q * x))),
    Spelling("49 reciprocal", "sigmoid", lambda x: x * op("Reciprocal", 1 + exp((-x) * Q))),
    Spelling("51 Gelu", "erf", lambda x: op("Gelu", x)),
    Spelling("51 Gelu none", "erf", lambda x: op("Gelu", x, approximate="none")),
    Spelling("51 Gelu tanh", "tanh", lambda x: op("Gelu", x, approximate="tanh")),
    Spelling("53 contrib Gelu", "erf", lambda x: op("Gelu", x, domain="com.microsoft")),
    Spelling("53 FastGelu", "tanh", lambda x: op("FastGelu", x, domain="com.microsoft")),
    Spelling("53 QuickGelu", "sigmoid", lambda x: op("QuickGelu", x, domain="com.microsoft", alpha=1.702)),
]

NEGATIVES: list[tuple[str, Formula]] = [
    ("24 laplace", lambda x: (erf((x - 0.707107) / 0.39894259) + 1) * 0.5),
    ("normal cdf", lambda x: (erf(x / R2) + 1) * 0.5),
    ("48 silu", lambda x: x * sigmoid(x)),
    ("swish 1.69", lambda x: x * sigmoid(1.69 * x)),
    ("no cube", lambda x: x * sigmoid(2 * S * x)),
    ("50 hard swish", lambda x: x * op("HardSigmoid", x)),
    ("mish", lambda x: x * tanh(op("Softplus", x))),
    ("1 - erf", lambda x: 0.5 * x * (1 - erf(x / R2))),
    ("exponent 2", lambda x: 0.5 * x * (1 + tanh(S * (x + K * x**2.0)))),
    ("wrong root", lambda x: 0.5 * x * (1 + erf(x / 1.4145))),
    ("root over x", lambda x: 0.5 * x * (1 + erf(R2 / x))),
    ("0.999", lambda x: 0.5 * x * (0.999 + erf(x / R2))),
    ("loose constants", lambda x: 0.5 * x * (1 + tanh(0.8 * (x + 0.0447 * x**3.0)))),
    ("loose torchscript constants", lambda x: 0.5 * (x * (1 + tanh(0.807 * (x + 0.0546 * (x * (x * x))))))),
    ("per channel", lambda x: 0.5 * x * (1 + erf(x / np.linspace(1.40, 1.43, 8, dtype=np.float32)))),
    ("gate from another value", lambda x: 0.5 * op("Relu", x) * (1 + erf(x / R2))),
    ("tanh alone", lambda x: 0.5 * x * (1 + tanh(x))),
    ("elu-like", lambda x: x * exp(x)),
    ("QuickGelu of another slope", lambda x: op("QuickGelu", x, domain="com.microsoft", alpha=1.0)),
]

"""Networks with an exact GELU that is not fused, and times that are made up: what tests of --form auto share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from graphs import Expression, erf, model, op
from spellings import R2

from gelu_deploy import runtime
from gelu_deploy.arrays import Array
from gelu_deploy.artifact.golden import Case
from gelu_deploy.choosing.candidates import Maker
from gelu_deploy.choosing.files import Shelf
from gelu_deploy.options import ExportOptions
from gelu_deploy.parity import Limits
from gelu_deploy.pipeline import Pipeline
from gelu_deploy.targets import named
from gelu_deploy.timing.interleaved import Timing, Variant

SCALE, ZERO = np.array(0.05, np.float32), np.array(0, np.int8)
X: Array = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)

Pace = Mapping[str, float | Sequence[float]]
"""Milliseconds by the name of a candidate, of each round or of all."""


def dequantized(x: Expression) -> Expression:
    """``x`` as files with 8-bit activations have it: in the runtime each reader gets a copy, and none is fused."""
    return op("DequantizeLinear", op("QuantizeLinear", x, SCALE, ZERO), SCALE, ZERO)


def gelu(x: Expression) -> Expression:
    """The exact form."""
    return x * (0.5 * (1 + erf(x / R2)))


def unfusable(x: Expression) -> Expression:
    """One exact GELU of a dequantized value, with as little as possible around it."""
    return -gelu(dequantized(x))


def both(x: Expression) -> Expression:
    """One GELU that fuses, of 64 numbers a row, and one of 32 that does not."""
    random = np.random.default_rng(1)
    wide, back = (random.normal(size=size).astype(np.float32) / 6 for size in ((32, 64), (64, 32)))
    return unfusable(op("MatMul", gelu(op("MatMul", x, wide)), back))


def pipeline(
    formula: Callable[[Expression], Expression] = both, opset: int = 17, shape: tuple[int, ...] = (32,)
) -> Pipeline:
    """The start of ``--form auto``: proved on three rows."""
    made, feeds = model(formula, shape=("n", *shape), opset=opset), {"x": X.reshape(-1, *shape).copy()}
    case = Case(feeds, runtime.evaluate(made, feeds, optimise=False))
    return Pipeline.start(made, [case], Limits(), measured=True)


def maker(start: Pipeline, folder: Path, **options: Any) -> Maker:
    """What makes candidates of it, at its own operator set."""
    shelf = Shelf(folder, (value.const_value for value in start.held.weights.values()))
    asked = ExportOptions(**options)
    return Maker(start, asked, start.model.opset_imports[""], named(asked.target), shelf)


def timer(pace: Callable[[str], float | Sequence[float]], seen: list[list[str]]) -> Callable[..., list[Timing]]:
    """In the place of ``timed``: what a candidate takes is asked of ``pace``; ``seen`` gets who was in each race."""

    def timed(variants: Sequence[Variant], _feeds: object, *, rounds: int, seconds: float) -> list[Timing]:
        assert seconds > 0
        seen.append([one.name for one in variants])
        return [Timing(one.name, _rounds(pace(one.name), rounds), {}, 0, 0) for one in variants]

    return timed


def _rounds(took: float | Sequence[float], rounds: int) -> tuple[tuple[float, ...], ...]:
    each = [took] * rounds if isinstance(took, (int, float)) else took
    return tuple((one, 2 * one) for one in each)


def operators(file: Path) -> list[str]:
    """Of a file, in order."""
    return [node.op_type for node in ir.load(file).graph]

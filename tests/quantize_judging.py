"""Recipes measured on data, and the judge that the guard and the correction ask: what their tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.arrays import Arrays
from gelu_deploy.quantization.calibration import Observation, observe
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.network import Integer, Network, Recipe
from gelu_deploy.scoring.metrics import Energy


def observed(made: Network, data: Sequence[Arrays]) -> dict[str, Observation]:
    """Everything that the recipe needs."""
    return observe(made, insert.needed(made.layers), data)


def recipe(made: Network, data: Sequence[Arrays], weight: Integer = "u8") -> Recipe:
    """Smallest and largest value; u8 weights, whose kernel adds exactly on every CPU."""
    ranges = {name: (seen.minimum, seen.maximum) for name, seen in observed(made, data).items()}
    return Recipe(ranges, weight=weight)


def answers(made: Network, data: Sequence[Arrays]) -> list[Arrays]:
    with made.showing([]) as run:
        return [run(feeds) for feeds in data]


def noise(model: ir.Model, wanted: Sequence[Arrays], data: Sequence[Arrays]) -> float:
    """SQNR of the model's outputs in dB."""
    energy = Energy()
    with runtime.Evaluation(model, optimise=True) as run:
        for feeds, right in zip(data, wanted, strict=True):
            got = run(feeds)
            for name, array in right.items():
                energy.add(array, got[name])
    return energy.db


def judge(made: Network, data: Sequence[Arrays], held: Sequence[Arrays]) -> Callable[[Network], float]:
    """How near integer models of networks made of ``made`` come to its answers; ranges from ``data``."""
    wanted = answers(made, held)
    return lambda one: noise(insert.static(one, recipe(one, data)), wanted, held)


def widened(made: Network, node: str = "norm2", channel: int = 7, gain: float = 64.0) -> Network:
    """The network with one channel of a norm made wide, in place."""
    norm = made.model.graph.node(node)
    scale = norm.inputs[1]
    assert scale is not None
    assert scale.const_value is not None
    array = scale.const_value.numpy().copy()
    array[channel] = gain
    scale.const_value = ir.tensor(array, name=scale.name)
    return made

"""Holds large weights out of a model (initializers turned into inputs) and puts them back by name.

Every pass, the checker, the simplifier and the runtime's own optimiser then work on a graph of kilobytes.
It knows nothing of GELU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

LARGE = 4096
"""Bytes from which a weight is held out."""

READERS: Mapping[str, frozenset[int]] = {
    "MatMul": frozenset({0, 1}),
    "Gemm": frozenset({0, 1, 2}),
    "Gather": frozenset({0}),
    "Attention": frozenset({1, 2}),
    "Add": frozenset({0, 1}),
    "LayerNormalization": frozenset({1, 2}),
}
"""Operators, with the inputs, that nothing below us folds a weight into. Everything else keeps its weights: a
Conv takes in the BatchNormalization after it, a Transpose or Cast of a weight is computed once."""


@dataclass(frozen=True)
class Held:
    """Weights that are out of a model, by name."""

    weights: Mapping[str, ir.Value]

    @property
    def names(self) -> frozenset[str]:
        """Names of the inputs that are no inputs."""
        return frozenset(self.weights)


def hold(model: ir.Model) -> Held:
    """Turn every large weight that only ``READERS`` read into an input, in place.

    What stays is read from the files it may lie in, so that the graph can leave them behind.
    """
    own = {value.name for value in model.graph.inputs}
    out = {name: value for name, value in model.graph.initializers.items() if name not in own and _holdable(value)}
    for name, value in out.items():
        del model.graph.initializers[name]
        model.graph.inputs.append(value)
    stay = [value for value in model.graph.initializers.values() if isinstance(value.const_value, ir.ExternalTensor)]
    external = [value.const_value for value in stay if value.const_value is not None]
    for value, tensor in zip(stay, ir.external_data.convert_tensors_from_external(external), strict=True):
        value.const_value = tensor
    return Held(out)


def arrays(held: Held) -> dict[str, NDArray[Any]]:
    """The weights that are out, by name, for running the hollow graph; not copied where they lie in memory."""
    return {name: value.const_value.numpy() for name, value in held.weights.items() if value.const_value is not None}


def digest(model: ir.Model, held: Held) -> str:
    """SHA-256, in hexadecimal, of a hollow model and of the weights that are out of it."""
    total = hashlib.sha256(ir.to_proto(model).SerializeToString(deterministic=True))
    for name, weight in sorted(arrays(held).items()):
        total.update(f"{name}\0{weight.dtype.str}\0{weight.shape}\0".encode())
        total.update(np.ascontiguousarray(weight).view(np.uint8).data if weight.ndim else weight.tobytes())
    return total.hexdigest()


def put_back(model: ir.Model, held: Held) -> None:
    """Undo :func:`hold`, in place, on the same model or on one that a tool made of it; unused weights stay away."""
    kept = [value for value in model.graph.inputs if value.name not in held.names]
    back = [value for value in model.graph.inputs if value.name in held.names]
    del model.graph.inputs[:]
    model.graph.inputs.extend(kept)
    for value in back:
        if not value.uses() and not value.is_graph_output():
            continue
        assert value.name is not None
        value.const_value = held.weights[value.name].const_value
        model.graph.register_initializer(value)


def _holdable(value: ir.Value) -> bool:
    tensor = value.const_value
    if tensor is None or tensor.nbytes < LARGE or value.is_graph_output():
        return False
    return all(
        node.graph is value.graph and node.domain == "" and place in READERS.get(node.op_type, ()) and not _folds(node)
        for node, place in value.uses()
    )


def _folds(node: ir.Node) -> bool:
    """Whether every input of ``node`` is constant, so that a simplifier computes it."""
    return all(value is None or value.const_value is not None for value in node.inputs)

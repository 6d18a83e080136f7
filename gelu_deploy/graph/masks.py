"""Attention masks that stay finite: what is added before a Softmax to forbid a place is large, never infinite.

A place so forbidden gets exactly 0, as with −inf, and a row that is forbidden everywhere gets the mean instead of NaN,
so that PyTorch's guard against NaN is not needed. It works on whole models, and knows nothing of quantization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from gelu_deploy.arrays import Array
from gelu_deploy.graph.arithmetic import FLOATS, tensor_of, uniform
from gelu_deploy.graph.passes import Result

READERS: Mapping[str, int] = {"Softmax": 0, "Attention": 3}
"""Operators that forbid what is very negative, and the input that says so."""
CARRIERS = {
    *("Add", "Sum", "Sub", "Mul", "Div", "Where", "Min", "Max", "Trilu", "ConstantOfShape", "Identity", "Pad", "Tile"),
    *("Expand", "Reshape", "Unsqueeze", "Squeeze", "Slice", "Gather", "Transpose", "Concat"),
}
"""Operators that a mask passes through between its constants and its reader."""
COMPUTED = {"MatMul", "Gemm", "Einsum", "Conv", "Cast"}
"""Operators that make scores, which are finite, or masks of ones and zeros."""
FLOOR: Mapping[ir.DataType, float] = {ir.DataType.FLOAT16: -3e4}
"""Two of them together are still finite; ``LOWEST`` for other types."""
LOWEST = -1e30


@dataclass(frozen=True)
class FiniteMasks:
    """Lifts the constants of masks to a finite floor and removes guards that have nothing to guard, in place.

    A mask that something else reads too stays as it is.

    Attributes:
        guarded: Whether a mask of −inf is lifted although its Softmax is guarded. A row that is forbidden everywhere,
            padding as a rule, then gives the mean where the guard gave 0; all other rows stay the same.
    """

    guarded: bool = False

    def apply(self, model: ir.Model) -> Result:
        """Works on the main graph of a whole model whose constants are initializers."""
        readers = [node for node in model.graph if node.op_type in READERS and not node.domain]
        if not self.guarded:
            readers = [node for node in readers if not _Cone(node).needs_guard()]
        lifted = _lift(model.graph, [_Cone(node) for node in readers])
        removed = sum(_Cone(node).remove_guards() for node in readers)
        if lifted or removed:
            RemoveUnusedNodesPass()(model)
        return Result(model, modified=bool(lifted or removed), notes=tuple(_notes(lifted, removed)))


class _Cone:
    """What reaches one reader of masks.

    Attributes:
        reader: It.
        nodes: The operators between it and the constants, the nearest first.
        leaves: What those read and no carrier makes.
        guards: The operators ``Where(IsNaN(y), 0, y)`` on its result.
    """

    def __init__(self, reader: ir.Node) -> None:
        self.reader = reader
        self.nodes: dict[ir.Node, None] = {}
        self.leaves: dict[ir.Value, None] = {}
        place = READERS[reader.op_type]
        queue = [reader.inputs[place]] if len(reader.inputs) > place else []
        while queue:
            value = queue.pop()
            if value is None or (value.dtype is not None and value.dtype not in FLOATS):
                continue
            maker = value.producer()
            if maker is None or maker.op_type not in CARRIERS or maker.domain:
                self.leaves[value] = None
            elif maker not in self.nodes:
                self.nodes[maker] = None
                queue += maker.inputs
        self.guards = _guards(reader) if reader.op_type == "Softmax" else []

    def needs_guard(self) -> bool:
        """Whether there is a guard and the mask is −inf somewhere."""
        return bool(self.guards) and any(np.isneginf(array).any() for array in self._constants())

    def remove_guards(self) -> int:
        """Pass by the guards if no mask can make a whole row −inf, as far as that shows; how many there were."""
        made = [value.producer() for value in self.leaves if tensor_of(value) is None]
        if not all(map(_is_computed, made)) or not all(np.isfinite(array).all() for array in self._constants()):
            return 0
        for guard in self.guards:
            guard.outputs[0].replace_all_uses_with(self.reader.outputs[0])
        return len(self.guards)

    def _constants(self) -> Iterable[Array]:
        tensors = [tensor for value in self.leaves if (tensor := tensor_of(value)) is not None]
        tensors += [node.attributes["value"].as_tensor() for node in self.nodes if "value" in node.attributes]
        return [np.asarray(tensor.numpy(), np.float64) for tensor in tensors if tensor.dtype in FLOATS]


def _is_computed(maker: ir.Node | None) -> bool:
    """Whether what it makes is a score, or ones and zeros."""
    if maker is None or maker.domain or maker.op_type not in COMPUTED:
        return False
    source = maker.inputs[0]
    return maker.op_type != "Cast" or (source is not None and source.dtype not in {None, *FLOATS})


def _guards(softmax: ir.Node) -> list[ir.Node]:
    result = softmax.outputs[0]
    tests = [node.outputs[0] for node, _ in result.uses() if node.op_type == "IsNaN"]
    found = [node for test in tests for node, place in test.uses() if node.op_type == "Where" and place == 0]
    return [node for node in found if node.inputs[2] is result and _is_zero(node.inputs[1]) and _is_inner(node)]


def _is_zero(value: ir.Value | None) -> bool:
    return value is not None and uniform(tensor_of(value)) == 0


def _is_inner(node: ir.Node) -> bool:
    return not any(value.is_graph_output() for value in node.outputs)


def _lift(graph: ir.Graph, cones: Iterable[_Cone]) -> list[str]:
    """Raise what is below the floor where nothing but masks reads it; the names of those constants."""
    masks = {node for cone in cones for node in cone.nodes}
    edges = dict.fromkeys((cone.reader, READERS[cone.reader.op_type]) for cone in cones)
    lifted = dict[str, None]()
    for node in reversed(list(graph)):
        if node in masks and _is_inner(node) and all(use in edges for value in node.outputs for use in value.uses()):
            edges |= dict.fromkeys((node, place) for place in range(len(node.inputs)))
            _lift_attribute(node, lifted)
    for node, place in edges:
        value = node.inputs[place] if place < len(node.inputs) else None
        tensor = None if value is None else _lifted(tensor_of(value))
        if value is None or tensor is None:
            continue
        tensor.name = f"{value.name}.finite"
        lifted[value.name or ""] = None
        if tensor.name not in graph.initializers:
            graph.register_initializer(ir.val(tensor.name, const_value=tensor))
        node.replace_input_with(place, graph.initializers[tensor.name])
    return list(lifted)


def _lift_attribute(node: ir.Node, lifted: dict[str, None]) -> None:
    """The same for the number that a ConstantOfShape repeats."""
    tensor = _lifted(node.attributes["value"].as_tensor()) if "value" in node.attributes else None
    if tensor is not None:
        node.attributes["value"] = ir.AttrTensor("value", tensor)
        lifted[node.outputs[0].name or ""] = None


def _lifted(tensor: ir.TensorProtocol | None) -> ir.TensorProtocol | None:
    """The tensor with nothing in it below the floor, None where nothing is."""
    if tensor is None or tensor.dtype not in FLOATS:
        return None
    array, floor = tensor.numpy(), FLOOR.get(tensor.dtype, LOWEST)
    if not (array < floor).any():
        return None
    return ir.Tensor(np.maximum(array, np.asarray(floor, array.dtype)), tensor.dtype)


def _notes(lifted: list[str], removed: int) -> Iterator[str]:
    if lifted:
        yield f"mask constants are {LOWEST:g} at least ({', '.join(lifted)}): a row masked everywhere gives the mean"
    if removed:
        yield f"guards against NaN after Softmax removed ({removed}): no mask there is infinite"

"""Moves a model to another operator set: ONNX's version converter, plus the operators that it gets wrong.

It works on hollow graphs, and knows nothing of GELU: sites are written for the target before it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx_ir as ir
from onnx import ModelProto

from gelu_deploy.errors import ModelError
from gelu_deploy.graph import scopes
from gelu_deploy.graph.passes import Result

HIDDEN = "gelu_deploy.hidden"
"""Domain under which operators stand while the converter, which has no adapter for them, looks away."""


@dataclass(frozen=True)
class Convert:
    """Writes the model for another operator set; the result is a new model.

    Attributes:
        opset: Version of the default domain to reach.
    """

    opset: int

    def apply(self, model: ir.Model) -> Result:
        """Raises ModelError naming the operator that cannot be converted."""
        own = model.opset_imports.get("", 0)
        if own == self.opset:
            return Result(model, modified=False)
        modules = scopes.remember(model)
        hidden = _hide_splits(model) if self.opset < 18 <= own else False
        converted = ir.from_proto(_converted(ir.to_proto(model), own, self.opset))
        if hidden:
            _show_splits(converted)
        if self.opset < 18 <= own:
            _drop_noop_attributes(converted)
        scopes.restore(converted, modules)
        reached = converted.opset_imports.get("", 0)
        if reached != self.opset:
            raise ModelError(f"asked for opset {self.opset}, the version converter left the model at {reached}")
        return Result(converted, modified=True, notes=(f"opset {own} -> {self.opset} by the version converter",))


def _converted(proto: ModelProto, own: int, wanted: int) -> ModelProto:
    from onnx import version_converter

    try:
        return version_converter.convert_version(proto, wanted)
    except RuntimeError as error:
        named = re.search(r"(?:No (?:Adapter|Previous Version).*?(?:for|of)|Unsupported.*?:?)\s+(\w+)", str(error))
        operator = named.group(1) if named else "one of its operators"
        raise ModelError(
            f"opset {own} -> {wanted}: the version converter has no form of {operator} ({_last_line(error)}); "
            f"take a higher --opset"
        ) from None


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].rpartition("failed: ")[2][:160]


def _hide_splits(model: ir.Model) -> bool:
    """Give every Split of opset 18 the explicit sizes of opset 13, under a domain that the converter skips."""
    splits = [node for node in model.graph.all_nodes() if node.op_type == "Split" and node.domain == ""]
    for node in splits:
        node.attributes.pop("num_outputs", None)
        if len(node.inputs) < 2 or node.inputs[1] is None:
            _even_sizes(node, model.graph)
        node.domain = HIDDEN
    if splits:
        model.opset_imports[HIDDEN] = 1
    return bool(splits)


def _even_sizes(node: ir.Node, graph: ir.Graph) -> None:
    """Without sizes opset 18 lets the last part be smaller; opset 13 demands equal parts, so sizes are spelled out."""
    value, axis, parts = node.inputs[0], node.attributes.get_int("axis", 0), len(node.outputs)
    size = value.shape[axis] if value is not None and value.shape is not None else None
    if not isinstance(size, int):
        return
    part = -(-size // parts)
    if part * parts == size:
        return
    sizes = ir.tensor([part] * (parts - 1) + [size - part * (parts - 1)], ir.DataType.INT64, name=f"{node.name}.sizes")
    constant = ir.node("Constant", [], {"value": sizes}, name=f"{node.name}.sizes")
    constant.outputs[0].name = f"{node.name}.sizes"
    graph.insert_before(node, constant)
    node.resize_inputs(2)
    node.replace_input_with(1, constant.outputs[0])


def _show_splits(model: ir.Model) -> None:
    for node in model.graph.all_nodes():
        if node.domain == HIDDEN:
            node.domain = ""
    model.opset_imports.pop(HIDDEN, None)


def _drop_noop_attributes(model: ir.Model) -> None:
    """The converter leaves opset 18's noop_with_empty_axes on reductions that did not know it before."""
    for node in model.graph.all_nodes():
        if node.op_type.startswith("Reduce") and node.op_type != "ReduceSum":
            node.attributes.pop("noop_with_empty_axes", None)

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

RENUMBERED = {"Split", "Pad"}
"""Operators that opset 18 only gave more options; without these they are valid below as they are."""


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
        model = model.clone()
        if self.opset < 18 <= own:
            _prepare(model, own, self.opset)
        converted = ir.from_proto(_converted(ir.to_proto(model), own, self.opset))
        if self.opset < 18 <= own:
            _finish(converted)
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
        named = re.search(r"No (?:Adapter|Previous Version).*?(?:for|of)\s+(\w+)", str(error))
        operator = named.group(1) if named else " or ".join(_changed(proto, own, wanted))
        why = f"the version converter has no form of {operator} ({_last_line(error)})"
        raise _impossible(own, wanted, why) from None


def _impossible(own: int, wanted: int, why: str) -> ModelError:
    advice = "take a higher --opset, or for a PyTorch model --exporter torchscript, which writes old ones itself"
    return ModelError(f"opset {own} -> {wanted}: {why}; {advice}")


def _changed(proto: ModelProto, own: int, wanted: int) -> list[str]:
    """The model's operators that are not the same in both sets."""
    from onnx import defs

    names = sorted({node.op_type for node in proto.graph.node if node.domain == "" and defs.has(node.op_type)})
    return [name for name in names if defs.get_schema(name, max(own, wanted)).since_version > min(own, wanted)]


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].rpartition("failed: ")[2][:160]


def _prepare(model: ir.Model, own: int, wanted: int) -> None:
    """Write what the converter gets wrong as it was written before opset 18, under a domain that it skips."""
    for node in [node for node in model.graph.all_nodes() if node.domain == ""]:
        if node.op_type == "Constant" and "value" not in node.attributes:
            _name_value(node)  # it reads axes from this attribute alone
        elif node.op_type.startswith("Reduce") and node.op_type != "ReduceSum" and _does_nothing(node):
            raise _impossible(own, wanted, f"{node.op_type} with noop_with_empty_axes and no axes has no older form")
        elif node.op_type in RENUMBERED and not _needs_new_options(node):
            if node.op_type == "Split":
                node.attributes.pop("num_outputs", None)
                _even_sizes(node)
            node.domain = HIDDEN
            model.opset_imports[HIDDEN] = 1


def _name_value(node: ir.Node) -> None:
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    if tensor is not None:
        node.attributes.clear()
        node.attributes["value"] = ir.AttrTensor("value", tensor)


def _does_nothing(node: ir.Node) -> bool:
    return bool(node.attributes.get_int("noop_with_empty_axes", 0)) and not any(node.inputs[1:])


def _needs_new_options(node: ir.Node) -> bool:
    wraps = node.op_type == "Pad" and node.attributes.get_string("mode", "constant") == "wrap"
    return wraps or (node.op_type == "Pad" and any(node.inputs[3:]))


def _even_sizes(node: ir.Node) -> None:
    """Without sizes opset 18 lets the last part be smaller; opset 13 demands equal parts, so sizes are spelled out."""
    if any(node.inputs[1:]):
        return
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
    assert node.graph is not None
    node.graph.insert_before(node, constant)
    node.resize_inputs(2)
    node.replace_input_with(1, constant.outputs[0])


def _finish(model: ir.Model) -> None:
    """Show what was hidden; drop noop_with_empty_axes, which the converter leaves where no one knew it before."""
    for node in model.graph.all_nodes():
        if node.domain == HIDDEN:
            node.domain = ""
        elif node.op_type.startswith("Reduce") and node.op_type != "ReduceSum":
            node.attributes.pop("noop_with_empty_axes", None)
    model.opset_imports.pop(HIDDEN, None)

"""Moves a model to another operator set: ONNX's version converter, plus the operators that it gets wrong.

It works on hollow graphs, and knows nothing of GELU: sites are written for the target before it runs. On the way down
an operator that is too new is written out as simpler ones where that is possible; all the others are named at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir
from onnx import ModelProto, defs, helper
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from gelu_deploy.errors import ModelError
from gelu_deploy.graph import scopes
from gelu_deploy.graph.bodies import write_out
from gelu_deploy.graph.passes import Result

HIDDEN = "gelu_deploy.hidden"
"""Domain under which operators stand that are valid as they are, while the converter, which may have no adapter for
them, looks away."""

COMPARABLE = 11
"""From here on, two versions of an operator with the same signature differ in types alone; before, an axis could not
be counted from behind."""

NEWER_VALUES: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("Pad", "mode"): {"wrap": 19},
    ("Resize", "coordinate_transformation_mode"): {"half_pixel_symmetric": 19},
    ("ScatterElements", "reduction"): {"max": 18, "min": 18},
    ("ScatterND", "reduction"): {"max": 18, "min": 18},
}
"""Values that an attribute which is old itself has had since."""

NOT_AS_BEFORE = {"RoiAlign"}
"""Operators whose new attribute does by default what the old version did not do."""

HALFWAY = 13
"""Where a longer way down is cut in two: opset 13 renumbered what opset 18 gives another signature (ReduceMean)."""


@dataclass(frozen=True)
class Convert:
    """Writes the model for another operator set; the result is a new model.

    Attributes:
        opset: Version of the default domain to reach.
    """

    opset: int

    def apply(self, model: ir.Model) -> Result:
        """Raises ModelError naming every operator that cannot be converted, before anything is."""
        own = model.opset_imports.get("", 0)
        if own == self.opset:
            return Result(model, modified=False)
        if self.opset < HALFWAY < own:
            half = Convert(HALFWAY).apply(model)
            rest = self.apply(half.model)
            return Result(rest.model, modified=True, notes=(*half.notes, *rest.notes))
        model, notes = model.clone(), list[str]()
        if self.opset < own:
            notes += write_out(model, self._is_too_new, f"opset {self.opset}")
        modules = scopes.remember(model)
        if self.opset < own:
            _prepare(model, own, self.opset)
        converted = ir.from_proto(_converted(ir.to_proto(model), own, self.opset))
        if self.opset < own:
            _finish(converted, own, self.opset)
            converted.ir_version = _oldest_format(model, self.opset)
        scopes.restore(converted, modules)
        reached = converted.opset_imports.get("", 0)
        if reached != self.opset:
            raise ModelError(f"asked for opset {self.opset}, the version converter left the model at {reached}")
        notes.append(f"opset {own} -> {self.opset} by the version converter")
        return Result(converted, modified=True, notes=tuple(notes))

    def _is_too_new(self, node: ir.Node) -> bool:
        """Whether the operator did not exist yet, or not with these options."""
        cut = node.op_type == "Shape" and bool(node.attributes) and self.opset < 15
        return cut or (defs.has(node.op_type) and not defs.has(node.op_type, self.opset))


def _oldest_format(model: ir.Model, opset: int) -> int:
    """The file format of the time of an operator set, so that a runtime of that time reads it; functions need 8."""
    of_its_time = helper.find_min_ir_version_for([helper.make_opsetid("", opset)])
    return min(model.ir_version, max(of_its_time, 8 if model.functions else 0))


def _converted(proto: ModelProto, own: int, wanted: int) -> ModelProto:
    from onnx import version_converter

    try:
        return version_converter.convert_version(proto, wanted)
    except RuntimeError as error:
        raise _impossible(own, wanted, f"the version converter fails ({_last_line(error)})") from None


def _impossible(own: int, wanted: int, why: str) -> ModelError:
    advice = "take a higher --opset, or for a PyTorch model --exporter torchscript, which writes old ones itself"
    return ModelError(f"opset {own} -> {wanted}: {why}; {advice}")


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].rpartition("failed: ")[2][:160]


def _prepare(model: ir.Model, own: int, wanted: int) -> None:
    """Hide what is valid below as it is, mend what the converter gets wrong, and refuse what it cannot do."""
    if wanted < 12:  # the converter has no way to opset 11 for the operator Constant
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    refused = dict[str, list[ir.Node]]()
    probed = dict[object, str]()
    for node in [node for node in model.graph.all_nodes() if node.domain == "" and defs.has(node.op_type)]:
        _mend(node)
        if not defs.has(node.op_type, wanted):
            refused.setdefault(f"no {node.op_type}", []).append(node)
        elif node.op_type == "Constant" or defs.get_schema(node.op_type, own).since_version <= wanted:
            continue  # the converter knows constants, and reads them
        elif wanted >= COMPARABLE and _is_valid(node, own, wanted):
            node.domain = HIDDEN
            model.opset_imports[HIDDEN] = 1
        elif why := _unconvertible(node, own, wanted, probed):
            refused.setdefault(f"no such {node.op_type} ({why})", []).append(node)
    if refused:
        told = "; ".join(f"{what}, needed in {scopes.places_of(nodes)}" for what, nodes in refused.items())
        raise _impossible(own, wanted, f"the older set has {told}")


def _mend(node: ir.Node) -> None:
    """Write as the older sets know it what says the same there."""
    if node.op_type == "Constant" and "value" not in node.attributes:
        _name_value(node)  # the converter reads axes from this attribute alone
    elif node.op_type == "Split" and "num_outputs" in node.attributes:
        del node.attributes["num_outputs"]
        _even_sizes(node)
    elif node.op_type == "Reshape" and node.attributes.get_int("allowzero", 0) == 1 and not _has_zero(node.inputs[1]):
        del node.attributes["allowzero"]


def _has_zero(shape: ir.Value | None) -> bool:
    """Whether a 0 is written in a shape; one that is computed has none unless an axis is empty when the model runs."""
    tensor = None if shape is None else _constant(shape)
    return tensor is not None and bool((tensor.numpy() == 0).any())


def _is_valid(node: ir.Node, own: int, wanted: int) -> bool:
    """Whether the node as it stands says the same in the older set; what it says of newer options by default goes."""
    new, old = defs.get_schema(node.op_type, own), defs.get_schema(node.op_type, wanted)
    added = {name: a for name, a in new.attributes.items() if name not in old.attributes}
    kept = {name: _default(a) for name, a in new.attributes.items() if name in old.attributes}
    if kept != {name: _default(a) for name, a in old.attributes.items()} or (added and node.op_type in NOT_AS_BEFORE):
        return False
    sides = ((node.inputs, new.inputs, old.inputs), (node.outputs, new.outputs, old.outputs))
    if not all(_same_places(*side) for side in sides):
        return False
    extra = [name for name in added if name in node.attributes]
    asked = any(ir.to_proto(node.attributes[name]).SerializeToString() != _default(added[name]) for name in extra)
    if asked or any(_is_newer_value(node, name, wanted) for name in node.attributes):
        return False
    for name in extra:
        del node.attributes[name]
    return True


def _default(attribute: defs.OpSchema.Attribute) -> bytes:
    return bytes(attribute.default_value.SerializeToString())


def _same_places(
    values: Iterable[ir.Value | None],
    new: Iterable[defs.OpSchema.FormalParameter],
    old: Iterable[defs.OpSchema.FormalParameter],
) -> bool:
    """Whether every input or output has the same meaning in both sets, and a type that the older one takes."""
    formal, before = list(new), list(old)
    if [place.option for place in formal[: len(before)]] != [place.option for place in before]:
        return False
    given = list(values)
    while given and (given[-1] is None or given[-1].name == ""):
        given.pop()
    variadic = bool(before) and before[-1].option == defs.OpSchema.FormalParameterOption.Variadic
    if len(given) > len(before) and not variadic:
        return False
    places = (before[min(n, len(before) - 1)] for n in range(len(given)))
    return all(value is None or _takes(place, value) for value, place in zip(given, places, strict=True))


def _takes(place: defs.OpSchema.FormalParameter, value: ir.Value) -> bool:
    if value.dtype is None or not isinstance(value.type, ir.TensorType):
        return True
    return f"tensor({_name_of(value.dtype)})" in place.types


def _name_of(dtype: ir.DataType) -> str:
    """A type by the name that schemas have for it: ``float``, ``double``, ``float16``."""
    return {"FLOAT": "float", "DOUBLE": "double"}.get(dtype.name, dtype.name.lower())


def _is_newer_value(node: ir.Node, name: str, wanted: int) -> bool:
    values = NEWER_VALUES.get((node.op_type, name), {})
    return bool(values) and values.get(node.attributes.get_string(name, ""), 0) > wanted


def _unconvertible(node: ir.Node, own: int, wanted: int, probed: dict[object, str]) -> str:
    """Why the converter cannot do this node, tried on it alone; ``""`` if it can."""
    if node.op_type.startswith("Reduce") and node.op_type != "ReduceSum" and wanted < 18 <= own:
        constant = len(node.inputs) < 2 or node.inputs[1] is None or _constant(node.inputs[1]) is not None
        if node.attributes.get_int("noop_with_empty_axes", 0) and not any(node.inputs[1:]):
            return "noop_with_empty_axes and no axes"
        return "" if constant else "axes that are computed"
    key = (node.op_type, len(node.inputs), tuple(str(attribute) for attribute in node.attributes.values()))
    if key not in probed:
        probed[key] = _probed(node, own, wanted)
    return probed[key]


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    return ir.convenience.get_const_tensor(value)


def _probed(node: ir.Node, own: int, wanted: int) -> str:
    values = list(dict.fromkeys(value for value in node.inputs if value is not None))
    places = {v: ir.val(f"in{n}", v.dtype, v.shape, const_value=_constant(v)) for n, v in enumerate(values)}
    copy = ir.Node("", node.op_type, [v and places[v] for v in node.inputs], node.attributes.values(), num_outputs=0)
    copy.resize_outputs(len(node.outputs))
    for number, (value, old) in enumerate(zip(copy.outputs, node.outputs, strict=True)):
        value.name, value.type, value.shape = f"out{number}", old.type, old.shape
    held = [value for value in places.values() if value.const_value is not None]
    free = [value for value in places.values() if value.const_value is None]
    graph = ir.Graph(free, copy.outputs, nodes=[copy], initializers=held, opset_imports={"": own}, name="one")
    try:
        _converted(ir.to_proto(ir.Model(graph, ir_version=10)), own, wanted)
    except ModelError as error:
        return str(error).partition("fails (")[2].partition("); take")[0]
    return ""


def _name_value(node: ir.Node) -> None:
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    if tensor is not None:
        node.attributes.clear()
        node.attributes["value"] = ir.AttrTensor("value", tensor)


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


def _finish(model: ir.Model, own: int, wanted: int) -> None:
    """Show what was hidden; drop what the converter leaves of options that no one knew before."""
    for node in model.graph.all_nodes():
        if node.domain == HIDDEN:
            node.domain = ""
        elif node.op_type.startswith("Reduce") and node.op_type != "ReduceSum" and wanted < 18 <= own:
            node.attributes.pop("noop_with_empty_axes", None)
    model.opset_imports.pop(HIDDEN, None)

"""Operators written out as simpler ones, for an operator set or a target that does not have them.

LayerNormalization in the textbook form that runtimes know and fuses again; any other by the function body that
ONNX itself gives for it. It knows nothing of GELU, and nothing of who lacks an operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx import defs, inliner, shape_inference

from gelu_deploy.graph.scopes import same_module

DEPTH = 4
"""How often what was written out may itself need writing out: Swish has a CastLike, that is a Cast."""

Made = tuple[list[ir.Node], list[ir.Value]]
"""Operators that stand for one, and their results."""

NORMALIZATIONS = {"LayerNormalization", "RMSNormalization"}
"""Operators whose own bodies flatten their input and count its axes when they run, which no runtime fuses again."""

STASHED = {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
"""Types for which they compute in float32."""


def every_node(model: ir.Model) -> Iterable[ir.Node]:
    """All nodes: of the graph, of the bodies in it and of the functions."""
    return chain(model.graph.all_nodes(), *(function.all_nodes() for function in model.functions.values()))


def write_out(model: ir.Model, unwanted: Callable[[ir.Node], bool], why: str) -> list[str]:
    """Replace every unwanted operator of the default domain that can be written out, in place.

    Args:
        model: Whole or hollow, with the types of its values.
        unwanted: Whether a node has to go; what stays because it cannot be written out is for the caller to refuse.
        why: For the note: ``"opset 13"``.

    Returns:
        One note for each kind of operator.
    """
    done = Counter[str]()
    for _ in range(DEPTH):
        todo = [node for node in every_node(model) if node.domain == "" and unwanted(node)]
        if not sum([_replaced(node, model, done) for node in todo]):
            break
    return [f"{count} {op} written out for {why}" for op, count in done.items()]


def _replaced(node: ir.Node, model: ir.Model, done: Counter[str]) -> bool:
    graph = node.graph
    assert graph is not None
    own = graph.opset_imports if isinstance(graph, ir.Function) else model.opset_imports
    opset = own.get("", model.opset_imports.get("", 1))
    made = _normalization(node, opset) or _cut_shape(node) or _by_its_body(node, opset)
    if made is None:
        return False
    nodes, results = made
    olds = node.outputs[: len(results)]
    _named_like(node, nodes, set(results))
    ir.convenience.replace_nodes_and_values(graph, node, [node], nodes, olds, results)
    done[node.op_type] += 1
    return True


def _named_like(node: ir.Node, nodes: Sequence[ir.Node], results: set[ir.Value]) -> None:
    """Names that begin with the old output's, and the old node's module."""
    base = node.outputs[0].name or node.name or node.op_type
    for place, made in enumerate(nodes):
        made.name = f"{base}.{place}.{made.op_type}"
        same_module(made, node)
        for number, value in enumerate(value for value in made.outputs if value not in results):
            value.name = f"{made.name}.{number}"


def _normalization(node: ir.Node, opset: int) -> Made | None:
    """(x − mean) / √(variance + ε) · scale + bias over the last axes, in the order in which PyTorch writes it.

    RMSNormalization is the same without the mean.
    """
    source = node.inputs[0] if node.inputs else None
    if node.op_type not in NORMALIZATIONS or source is None or any(_is_read(value) for value in node.outputs[1:]):
        return None
    axis, own = node.attributes.get_int("axis", -1), source.dtype or node.outputs[0].dtype
    if own is None or (axis >= 0 and source.shape is None):
        return None
    first = axis if axis < 0 or source.shape is None else axis - len(source.shape)
    dtype = ir.DataType.FLOAT if own in STASHED and node.attributes.get_int("stash_type", 1) == 1 else own
    made, axes = _Made(), list(range(first, 0))
    x = made.cast(source, own, dtype)
    centred = x if node.op_type == "RMSNormalization" else made.op("Sub", x, made.mean(x, axes, opset))
    variance = made.mean(made.op("Pow", centred, made.number(2.0, dtype)), axes, opset)
    epsilon = made.number(node.attributes.get_float("epsilon", 1e-5), dtype)
    deviation = made.op("Sqrt", made.op("Add", variance, epsilon))
    y = made.cast(made.op("Div", centred, deviation), dtype, own)
    for op, value in zip(("Mul", "Add"), node.inputs[1:], strict=False):
        y = y if value is None else made.op(op, y, value)
    return made.nodes, [y]


def _cut_shape(node: ir.Node) -> Made | None:
    """Shape with its own start and end as a Slice of the whole shape."""
    source = node.inputs[0] if node.inputs else None
    if node.op_type != "Shape" or source is None or not node.attributes:
        return None
    made = _Made()
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", np.iinfo(np.int64).max)
    return made.nodes, [made.op("Slice", made.op("Shape", source), made.integers([start]), made.integers([end]))]


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


class _Made:
    """Operators that stand for one, in order."""

    def __init__(self) -> None:
        self.nodes = list[ir.Node]()

    def op(self, op: str, *inputs: ir.Value, **attributes: int | list[int] | ir.TensorProtocol) -> ir.Value:
        node = ir.node(op, inputs, attributes)
        self.nodes.append(node)
        return node.outputs[0]

    def number(self, number: float, dtype: ir.DataType) -> ir.Value:
        return self.op("Constant", value=ir.tensor(np.asarray(number, dtype.numpy()), dtype))

    def integers(self, numbers: list[int]) -> ir.Value:
        return self.op("Constant", value=ir.tensor(numbers, ir.DataType.INT64))

    def cast(self, value: ir.Value, own: ir.DataType, wanted: ir.DataType) -> ir.Value:
        return value if own == wanted else self.op("Cast", value, to=wanted.value)

    def mean(self, value: ir.Value, axes: list[int], opset: int) -> ir.Value:
        """ReduceMean over the axes, which opset 18 made an input."""
        given = {} if opset >= 18 else {"axes": axes}
        return self.op("ReduceMean", value, *([] if given else [self.integers(axes)]), **given)


def _by_its_body(node: ir.Node, opset: int) -> Made | None:
    """What ONNX's own function body makes of one node; None when there is no body for it in this operator set."""
    inputs = list(dict.fromkeys(value for value in node.inputs if value is not None))
    bodies = any(isinstance(attribute.value, ir.Graph) for attribute in node.attributes.values())
    schema: Any = defs.get_schema(node.op_type, opset) if defs.has(node.op_type, opset) else None
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    if bodies or any(value.dtype is None for value in inputs):
        return None
    places = {value: ir.val(f"in{n}", value.dtype, value.shape) for n, value in enumerate(inputs)}
    attributes = _defaults(schema) | dict(node.attributes)
    copy = ir.Node("", node.op_type, [v and places[v] for v in node.inputs], attributes.values(), num_outputs=0)
    copy.resize_outputs(len(node.outputs))
    for number, (value, old) in enumerate(zip(copy.outputs, node.outputs, strict=True)):
        value.name, value.type = f"out{number}" if _is_read(old) or number == 0 else "", old.type
    outputs = [value for value in copy.outputs if value.name]
    graph = ir.Graph(list(places.values()), outputs, nodes=[copy], opset_imports={"": opset}, name="one")
    try:
        proto = inliner.inline_selected_functions(
            ir.to_proto(ir.Model(graph, ir_version=10)), [("", node.op_type)], inline_schema_functions=True
        )
        proto = shape_inference.infer_shapes(proto)  # what is written out again needs types
    except (RuntimeError, shape_inference.InferenceError):
        return None  # a body that depends on what is not known here
    return _lifted(ir.from_proto(proto).graph, inputs, node)


def _defaults(schema: defs.OpSchema) -> dict[str, ir.Attr]:
    """The values of attributes that are not given; a body that reads one of them finds nothing otherwise."""
    protos = (attribute.default_value for attribute in schema.attributes.values())
    return {proto.name: ir.serde.deserialize_attribute(proto) for proto in protos if proto.name}


def _lifted(body: ir.Graph, inputs: Sequence[ir.Value], node: ir.Node) -> Made | None:
    """The nodes of a body, reading what the node read."""
    nodes, results = list(body), list(body.outputs)
    if any(made.op_type == node.op_type and made.domain == node.domain for made in nodes):
        return None
    for place, value in zip(body.inputs, inputs, strict=True):
        place.replace_all_uses_with(value, replace_graph_outputs=True)
    body.outputs.clear()
    body.remove(nodes)
    return nodes, results

"""New operators in the place of old ones: their constants, their names, their users.

It knows graphs, subgraphs and functions, and takes what to write as data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from gelu_deploy.gelu import Step
from gelu_deploy.graph.arithmetic import tensor_of
from gelu_deploy.graph.recognize import CONTRIB_DOMAIN, Site
from gelu_deploy.graph.scopes import same_module

WEIGHT_OF = {"MatMul": 1, "Gemm": 1, "Conv": 1, "ConvTranspose": 1}
"""Operators that are linear in their first input, and where their weight is."""
CARRIERS = {"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}
"""Operators that a factor passes through."""


class Writer:
    """Writes sites into one model, in place; constants are shared."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._constants: dict[tuple[float, ir.DataType], ir.Value] = {}
        self._moved: dict[ir.Value, ir.Value] = {}  # a GELU may read another one that was just written anew

    def write(
        self, site: Site, steps: Sequence[Step], number: Callable[[str | float], float], dtype: ir.DataType
    ) -> None:
        """Put ``steps`` before the old last operator and move all users of its output to the new one.

        Args:
            site: What is replaced.
            steps: What is written: ``y`` from ``x``.
            number: Constants of the steps as numbers.
            dtype: Type to compute in; Casts are added where the site has another.
        """
        made = _Nodes(self, site, dtype)
        values: dict[str, ir.Value] = {"x": made.cast(self._moved.get(site.source, site.source), dtype, "x")}
        if site.bias is not None:
            bias = self._moved.get(site.bias, site.bias)
            values["x"] = made.add("Add", [values["x"], made.cast(bias, dtype, "bias")], "biased")
        for step in steps:
            inputs = [values[item] if item in values else made.constant(number(item), dtype) for item in step.inputs]
            attributes = [
                ir.AttrFloat32(key, number(text)) if text == "alpha" else ir.AttrString(key, text)
                for key, text in step.attributes.items()
            ]
            values[step.output] = made.add(step.op, inputs, step.output, attributes, step.domain)
        result = values["y"]
        if site.scale != 1 and not _folded_into_weights(site):
            result = made.add("Mul", [result, made.constant(site.scale, dtype)], "scaled")
        result = made.cast(result, site.dtype or dtype, "result")
        made.replace(result)
        self._moved[site.output] = result
        if any(step.domain == CONTRIB_DOMAIN for step in steps):
            self._model.opset_imports[CONTRIB_DOMAIN] = 1
            if isinstance(site.graph, ir.Function):
                site.graph.opset_imports[CONTRIB_DOMAIN] = 1

    def initializer(self, number: float, dtype: ir.DataType) -> ir.Value:
        """A scalar initializer of the main graph, which every subgraph sees."""
        key = (number, dtype)
        if key not in self._constants:
            graph, name = self._model.graph, f"gelu_deploy.{number:.9g}.{dtype.name.lower()}"
            value = graph.initializers.get(name) or ir.val(name, const_value=_scalar(number, dtype, name))
            graph.initializers[name] = value
            self._constants[key] = value
        return self._constants[key]


class _Nodes:
    """The operators written for one site."""

    def __init__(self, writer: Writer, site: Site, dtype: ir.DataType) -> None:
        self._writer, self._site, self._dtype = writer, site, dtype
        self._tail, self._name = site.nodes[-1], site.output.name or "gelu"
        self._made = list[ir.Node]()

    def add(
        self,
        op: str,
        inputs: Sequence[ir.Value],
        output: str,
        attributes: Sequence[ir.Attr] = (),
        domain: str = "",
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        name = f"{self._name}.{output}"
        value = ir.Value(name=name, type=ir.TensorType(dtype or self._dtype), shape=self._site.output.shape)
        node = ir.Node(domain, op, inputs, attributes, outputs=[value], name=name)
        same_module(node, self._tail)
        self._made.append(node)
        return value

    def cast(self, value: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
        """The value in this type; itself where it has it, or where its type is not known."""
        if value.dtype in {None, dtype}:
            return value
        return self.add("Cast", [value], f"{name}.cast", [ir.AttrInt64("to", dtype.value)], dtype=dtype)

    def constant(self, number: float, dtype: ir.DataType) -> ir.Value:
        """An initializer; a function has none, so a Constant node there."""
        if not isinstance(self._site.graph, ir.Function):
            return self._writer.initializer(number, dtype)
        name = f"{number:.9g}"
        tensor = _scalar(number, dtype, f"{self._name}.{name}")
        made = self.add("Constant", [], name, [ir.AttrTensor("value", tensor)])
        made.shape = ir.Shape(())
        return made

    def replace(self, result: ir.Value) -> None:
        """Put the operators in, give the result the old output's name and users."""
        old = self._site.output
        self._site.graph.insert_before(self._tail, self._made)
        old.replace_all_uses_with(result, replace_graph_outputs=True)
        old.name, result.name = f"{self._name}.replaced", self._name
        result.type, result.shape = old.type or result.type, old.shape


def remove_dead(sites: Iterable[Site]) -> None:
    """Take away the old operators of rewritten sites that nobody reads any more, and what only they read, at once."""
    sites = list(sites)
    kept = {value for site in sites for value in (site.source, site.bias)}
    queue = [node for site in sites for node in site.nodes]
    dead: dict[ir.Node, None] = {}
    readers: dict[ir.Value, int] = {}  # what is left of them, of values that the dead read
    while queue:
        node = queue.pop()
        if node in dead or any(_is_read(value, readers) for value in node.outputs):
            continue
        dead[node] = None
        for value in node.inputs:
            if value is None:
                continue
            if value not in readers:
                readers[value] = len(value.uses())
            readers[value] -= 1
            maker = value.producer()
            if maker is not None and value not in kept:
                queue.append(maker)
    _remove(dead)
    for value, left in readers.items():
        if not left and value.is_initializer() and value not in kept and not _is_kept(value):
            assert value.graph is not None
            assert value.name is not None
            del value.graph.initializers[value.name]


def _remove(dead: Mapping[ir.Node, None]) -> None:
    """Take operators out of their graphs, those of one graph at once; what lives on loses them as readers."""
    by_graph = defaultdict[ir.Graph | None, list[ir.Node]](list)
    for node in dead:
        by_graph[node.graph].append(node)
        for place, value in enumerate(node.inputs):
            if value is not None and value.producer() not in dead:
                node.replace_input_with(place, None)
    for graph, nodes in by_graph.items():
        assert graph is not None
        graph.remove(nodes)


def _is_read(value: ir.Value, readers: Mapping[ir.Value, int]) -> bool:
    return value.is_graph_output() or bool(readers[value] if value in readers else value.uses())


def _is_kept(value: ir.Value) -> bool:
    return value.is_graph_output() or value.is_graph_input()


def _scalar(number: float, dtype: ir.DataType, name: str) -> ir.TensorProtocol:
    return ir.tensor(np.asarray(number, dtype.numpy()), dtype, name=name)


def _folded_into_weights(site: Site) -> bool:
    """Multiply the weights of the only reader by the site's scale, if they are constant and nobody else's.

    A power of two, which is what tools leave behind, changes no bit of any product.
    """
    value = site.output
    while True:
        uses = list(value.uses())
        if len(uses) != 1 or value.is_graph_output():
            return False
        node, place = uses[0]
        if node.domain or place != 0:
            return False
        if node.op_type not in CARRIERS:
            break
        value = node.outputs[0]
    weight = node.inputs[WEIGHT_OF[node.op_type]] if node.op_type in WEIGHT_OF else None
    tensor = None if weight is None or len(weight.uses()) != 1 or weight.is_graph_output() else tensor_of(weight)
    if weight is None or tensor is None or weight.const_value is None or not tensor.dtype.is_floating_point():
        return False
    scale, name = site.scale, weight.name

    def scaled() -> ir.TensorProtocol:
        array = tensor.numpy()
        return ir.Tensor((array * np.asarray(scale, array.dtype)).astype(array.dtype), tensor.dtype, name=name)

    shape = ir.Shape(tensor.shape.numpy())
    weight.const_value = ir.LazyTensor(scaled, dtype=tensor.dtype, shape=shape, name=name, cache=True)
    return True

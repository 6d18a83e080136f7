"""Small float networks as the quantizer takes them, with data and ranges: what the tests of the quantize room share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from gelu_deploy import runtime
from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.graph import hollow
from gelu_deploy.graph.scopes import MODULE, module_of
from gelu_deploy.quantization.decisions.insert import needed
from gelu_deploy.quantization.network import Layer, Network, Range

WEIGHTED = {"Conv", "Gemm", "MatMul"}
PASSED = {"Reshape", "Mul", "Flatten", "Transpose"}
GELUS = {"Gelu", "FastGelu", "QuickGelu"}


class Builder:
    """Operators one after the other, each with a name and a module; weights from one random generator."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes = list[ir.Node]()
        self.initializers = list[ir.Value]()

    def weight(self, name: str, array: Any) -> ir.Value:
        """An initializer; float64 becomes float32."""
        array = np.asarray(array)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        value = ir.val(name, const_value=ir.tensor(array, name=name))
        self.initializers.append(value)
        return value

    def normal(self, name: str, *shape: int, scale: float | None = None) -> ir.Value:
        """A random initializer whose products keep the variance of their input; ``scale`` where that is not wanted."""
        scale = 1 / math.sqrt(math.prod(shape[:-1])) if scale is None else scale
        return self.weight(name, self.random.normal(size=shape) * scale)

    def op(
        self, name: str, op: str, *inputs: ir.Value | None, domain: str = "", module: str = "", **kw: Any
    ) -> ir.Value:
        """One node, called ``name``, and so is its output."""
        node = ir.node(op, list(inputs), kw, domain=domain, name=name)
        node.metadata_props[MODULE] = module or name
        node.outputs[0].name = name
        self.nodes.append(node)
        return node.outputs[0]

    def linear(
        self, name: str, x: ir.Value, inner: int, outer: int, *, flat: int = 0, bias: Array | None = None
    ) -> ir.Value:
        """x·W + b as one Gemm; ``flat`` (a length of axis 1) makes it one of a 3-D value, through Reshape."""
        w = self.normal(f"{name}.weight", inner, outer)
        b = self.weight(f"{name}.bias", self.random.normal(size=outer) * 0.1 if bias is None else bias)
        if not flat:
            return self.op(name, "Gemm", x, w, b)
        rows = self.op(f"{name}.rows", "Reshape", x, self.weight(f"{name}.2d", np.array([-1, inner])), module=name)
        made = self.op(f"{name}.gemm", "Gemm", rows, w, b, module=name)
        return self.op(name, "Reshape", made, self.weight(f"{name}.3d", np.array([-1, flat, outer])))

    def model(self, inputs: Sequence[ir.Value], *outputs: ir.Value, opset: int = 20) -> ir.Model:
        """The model of all nodes so far, with shapes."""
        for value in outputs:
            value.type = value.type or ir.TensorType(ir.DataType.FLOAT)
        domains = {node.domain: 1 for node in self.nodes} | {"": opset}
        graph = ir.Graph(
            inputs, outputs, nodes=self.nodes, initializers=self.initializers, opset_imports=domains, name="g"
        )
        return ShapeInferencePass()(ir.Model(graph, ir_version=10)).model


def network(model: ir.Model) -> Network:
    """A whole model whose nodes have names, made hollow, with every Conv, Gemm and MatMul of a constant weight."""
    layers = tuple(_layer(node) for node in model.graph if _has_weight(node))
    return Network(model, hollow.hold(model), layers)


def ffn(
    *,
    outliers: float = 0.0,
    width: int = 768,
    hidden: int = 3072,
    gemm: bool = True,
    contrib: str = "",
    bias_rows: bool = False,
    seed: int = 0,
) -> Network:
    """x (n, width) -> fc1 -> act -> fc2 = y: the feed-forward fixture.

    Args:
        outliers: Three biases of fc1 are plus or minus this.
        width: Of input and output.
        hidden: Between.
        gemm: Whether a layer is one Gemm, or MatMul + Add.
        contrib: A com.microsoft GELU in place of ``Gelu``.
        bias_rows: Whether biases have shape (1, n).
        seed: Of the weights.
    """
    make = Builder(seed)
    x = ir.val("x", ir.DataType.FLOAT, ("n", width))
    w1, w2 = make.normal("fc1.weight", width, hidden), make.normal("fc2.weight", hidden, width)
    b1 = make.random.normal(size=hidden) * 0.1
    if outliers:
        b1[np.array([5, 1000, 2000]) * hidden // 3072] = np.array([1, -1, 1]) * outliers
    rows = (1, -1) if bias_rows else (-1,)
    v1, v2 = make.weight("fc1.bias", b1.reshape(rows)), make.weight("fc2.bias", np.full(width, 0.01).reshape(rows))

    def linear(name: str, value: ir.Value, w: ir.Value, b: ir.Value, out: str) -> ir.Value:
        if gemm:
            made = make.op(name, "Gemm", value, w, b)
        else:
            made = make.op(f"{name}.add", "Add", make.op(name, "MatMul", value, w), b, module=name)
        made.name = out
        return made

    h = linear("fc1", x, w1, v1, "h")
    g = make.op("act", contrib or "Gelu", h, domain="com.microsoft" if contrib else "")
    g.name = "g"
    if contrib:
        g.type, g.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(("n", hidden))
    return network(make.model([x], linear("fc2", g, w2, v2, "y")))


def block(*, width: int = 64, heads: int = 4, length: int = 16, seed: int = 0) -> Network:
    """A pre-norm transformer block on x (n, length, width): norms, one attention, fc1 -> act -> fc2, residuals."""
    make, each = Builder(seed), width // heads
    x = ir.val("x", ir.DataType.FLOAT, ("n", length, width))

    def norm(name: str, value: ir.Value) -> ir.Value:
        ones, zeros = make.weight(f"{name}.weight", np.ones(width)), make.weight(f"{name}.bias", np.zeros(width))
        return make.op(name, "LayerNormalization", value, ones, zeros, axis=-1)

    def split(name: str, value: ir.Value, perm: list[int]) -> ir.Value:
        made = make.linear(f"attn.{name}", value, width, width, flat=length)
        shape = make.weight(f"attn.{name}.heads", np.array([-1, length, heads, each]))
        apart = make.op(f"attn.{name}.split", "Reshape", made, shape, module="attn")
        return make.op(f"attn.{name}.turn", "Transpose", apart, module="attn", perm=perm)

    n1 = norm("norm1", x)
    q, k, v = split("q", n1, [0, 2, 1, 3]), split("k", n1, [0, 2, 3, 1]), split("v", n1, [0, 2, 1, 3])
    scores = make.op("attn.scores", "MatMul", q, k, module="attn")
    scaled = make.op("attn.scaled", "Mul", scores, make.weight("attn.scale", np.float32(each**-0.5)), module="attn")
    mixed = make.op("attn.mixed", "MatMul", make.op("attn.softmax", "Softmax", scaled, module="attn"), v, module="attn")
    back = make.op("attn.back", "Transpose", mixed, module="attn", perm=[0, 2, 1, 3])
    joined = make.op(
        "attn.join", "Reshape", back, make.weight("attn.joined", np.array([-1, length, width])), module="attn"
    )
    x1 = make.op("add1", "Add", x, make.linear("attn.out", joined, width, width, flat=length))
    fc1 = make.linear("mlp.fc1", norm("norm2", x1), width, 4 * width, flat=length)
    fc2 = make.linear("mlp.fc2", make.op("mlp.act", "Gelu", fc1), 4 * width, width, flat=length)
    return network(make.model([x], make.op("y", "Add", x1, fc2)))


def conv(*, channels: int = 8, size: int = 12, grouped: bool = False, seed: int = 0) -> Network:
    """x (n, 3, size, size) -> conv1 -> act -> conv2 -> mean -> head = y (n, 10)."""
    make = Builder(seed)
    x = ir.val("x", ir.DataType.FLOAT, ("n", 3, size, size))

    def layer(name: str, value: ir.Value, inner: int, group: int) -> ir.Value:
        w = make.normal(f"{name}.weight", channels, inner // group, 3, 3, scale=1 / math.sqrt(9 * inner / group))
        b = make.normal(f"{name}.bias", channels, scale=0.1)
        return make.op(name, "Conv", value, w, b, pads=[1, 1, 1, 1], group=group)

    c1 = make.op("act", "Gelu", layer("conv1", x, 3, 1))
    c2 = layer("conv2", c1, channels, channels if grouped else 1)
    pooled = make.op("pool", "GlobalAveragePool", c2)
    flat = make.op("flat", "Flatten", pooled)
    return network(make.model([x], make.linear("head", flat, channels, 10)))


def feeds(made: Network, *, count: int = 2, batch: int = 4, seed: int = 1) -> Iterator[Arrays]:
    """Batches of standard normal inputs, float32."""
    random = np.random.default_rng(seed)
    own = [value for value in made.model.graph.inputs if value.name not in made.held.names]
    for _ in range(count):
        shapes = {v.name or "": [d if isinstance(d, int) else batch for d in v.shape or ()] for v in own}
        yield {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def ranges(made: Network, data: Sequence[Arrays]) -> dict[str, Range]:
    """Smallest and largest value of every layer's input, and of every Conv's output, over the data."""
    names = needed(made.layers)
    with made.showing(names) as run:
        seen = [feed | _shown(run(feed)) for feed in data]
    return {n: (min(float(s[n].min()) for s in seen), max(float(s[n].max()) for s in seen)) for n in names}


def answers(model: ir.Model, feed: Arrays, *, optimise: bool = True) -> Arrays:
    """Its outputs in the runtime."""
    return runtime.evaluate(model, feed, optimise=optimise)


def sqnr(made: Network, model: ir.Model, feed: Arrays) -> float:
    """Decibels of the numbers in the file: unoptimised, Q and DQ are float and no kernel adds its own."""
    want = answers(made.whole(), feed, optimise=False)
    pairs = zip(want.values(), answers(model, feed, optimise=False).values(), strict=True)
    return min(10 * float(np.log10(np.sum(want**2) / np.sum((want - got) ** 2))) for want, got in pairs)


def operators(model: ir.Model) -> list[str]:
    """What the runtime runs, in order."""
    return [node.op_type for node in runtime.optimised(model).graph]


def constant(model: ir.Model, name: str) -> Array:
    """An initializer by name."""
    tensor = model.graph.initializers[name].const_value
    assert tensor is not None
    return tensor.numpy()


def _shown(found: Mapping[str, Array]) -> Arrays:
    return {name.removesuffix(".shown"): array for name, array in found.items()}


def _has_weight(node: ir.Node) -> bool:
    return (
        node.domain == ""
        and node.op_type in WEIGHTED
        and (weight := node.inputs[1]) is not None
        and weight.is_initializer()
    )


def _layer(node: ir.Node) -> Layer:
    x, w = node.inputs[0], node.inputs[1]
    assert x is not None
    assert w is not None
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    axis = 0 if node.op_type == "Conv" or node.attributes.get_int("transB", 0) == 1 else len(_sizes(w)) - 1
    macs = math.prod(_sizes(w)) * math.prod(_sizes(node.outputs[0])[2:])
    if node.op_type != "Conv":
        macs = math.prod(_sizes(_unflattened(x))[1:]) * _sizes(w)[axis]
    return Layer(
        node.name or "",
        node.op_type,
        module_of(node),
        x.name or "",
        w.name or "",
        (bias.name or "") if bias else "",
        node.outputs[0].name or "",
        axis,
        macs,
        _after_gelu(x),
    )


def _sizes(value: ir.Value) -> list[int]:
    """Its shape, 1 for what is not known."""
    return [size if isinstance(size, int) else 1 for size in value.shape or ()]


def _unflattened(value: ir.Value) -> ir.Value:
    maker = value.producer()
    source = maker.inputs[0] if maker is not None and maker.op_type == "Reshape" else None
    return source if source is not None else value


def _after_gelu(value: ir.Value) -> bool:
    maker = value.producer()
    while maker is not None and maker.op_type in PASSED and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer()
    return maker is not None and maker.op_type in GELUS

"""Puts integers or 16 bits into a float network where the recipe says; ONNX Runtime's own quantizers do the work.

What is decided here is only what they must be told or kept from: which layers, which copy of a shared weight, which
reader of a shared value. It chooses no ranges, and does not look at what the runtime makes of the result.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from gelu_deploy import pipeline
from gelu_deploy.arrays import Array
from gelu_deploy.errors import ModelError
from gelu_deploy.graph import hollow, scopes
from gelu_deploy.quantization.decisions.quiet import quiet
from gelu_deploy.quantization.network import Integer, Layer, Network, Range, Recipe

APART = ".int8"
"""What follows the name of a value or weight that is quantized for some of its readers only."""
SHAPES_ARE_THERE = "onnx.infer"
"""Metadata for the quantizer, which otherwise writes the model to a file to infer shapes."""
FACTORS = ("alpha", "beta")
Ranges = Mapping[str, Range]


def needed(layers: Iterable[Layer]) -> tuple[str, ...]:
    """The values whose ranges :func:`static` asks for: what layers read, and what a Conv makes.

    No integer convolution of the runtime answers in float, so its output has a range too.
    """
    values = [name for layer in layers for name in (layer.input, *([layer.output] if layer.op == "Conv" else []))]
    return tuple(dict.fromkeys(values))


def static(network: Network, recipe: Recipe) -> ir.Model:
    """The network with Q and DQ before every layer that the recipe does not keep, weights per channel.

    Of outputs only a Conv's is quantized. A value that others read too, such as a residual, stays float for them.

    Args:
        network: Float network; it is not changed.
        recipe: With a range for every value of :func:`needed` of the layers that are quantized.

    Returns:
        A whole model, under the names of the network's nodes and values.

    Raises:
        ModelError: A range is missing or not finite, or the checker refuses the result.
    """
    chosen = [layer for layer in network.layers if layer.node not in recipe.kept]
    if not chosen:
        return network.whole()
    ranges = {name: _range(recipe.ranges, name) for name in needed(chosen)}
    model = network.model.clone()
    constants = {name for layer in chosen for name in (layer.weight, layer.bias)}
    hollow.put_back(model, hollow.Held({n: value for n, value in network.held.weights.items() if n in constants}))
    modules = scopes.remember(model)
    nodes = _by_name(model)
    _plain(model, [nodes[layer.node] for layer in chosen])
    weights = _own_weights(model, chosen, recipe.unsigned)
    apart = _own_values(model, chosen)
    made = _qdq(model, chosen, recipe, ranges | {new: ranges[old] for old, new in apart.items()}, weights)
    for name in apart.values():
        node = made.graph.node(name)
        node.outputs[0].replace_all_uses_with(_input(node, 0))
        made.graph.remove(node, safe=True)
    everywhere = recipe.weight == "u8"
    _about_128(made, (name for name, layer in weights.items() if everywhere or layer.node in recipe.unsigned))
    return _finished(network, made, modules)


def dynamic(network: Network, weight: Integer = "s8") -> ir.Model:
    """The network with every Gemm and MatMul layer in integers, activations quantized as they come; Conv stays float.

    The runtime's integer convolution for this is slower than its float one. Weights are per channel.

    Args:
        network: Float network; it is not changed.
        weight: Type of weights, symmetric (``u8``: about 128).

    Returns:
        A whole model. A Gemm becomes a MatMul and an Add.

    Raises:
        ModelError: The checker refuses the result.
    """
    from onnx import TensorProto

    model, modules, names = _products(network)
    if not names:
        return model
    with quiet():
        from onnxruntime.quantization import QuantizationMode, QuantType
        from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer

        kind = QuantType.QInt8 if weight == "s8" else QuantType.QUInt8
        options = {"MatMulConstBOnly": True, "WeightSymmetric": True, "DefaultTensorType": TensorProto.FLOAT}
        mode = QuantizationMode.IntegerOps
        quantizer = ONNXQuantizer(
            ir.to_proto(model), True, False, mode, False, kind, QuantType.QUInt8, None, names, [], ["MatMul"], options
        )
        quantizer.quantize_model()
    return _finished(network, ir.from_proto(quantizer.model.model), modules)


def weight_only(network: Network) -> ir.Model:
    """The network with the weights of its Gemm and MatMul layers in 8 bits, in blocks of 32; activations stay float.

    The kernel quantizes activations itself, block by block (accuracy level 4): the choice for batches of one or two.

    Args:
        network: Float network; it is not changed.

    Returns:
        A whole model. A Gemm becomes a MatMulNBits and an Add.

    Raises:
        ModelError: The checker refuses the result.
    """
    model, modules, names = _products(network)
    with quiet():
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        from onnxruntime.quantization.onnx_model import ONNXModel

        split = ONNXModel(ir.to_proto(model))
        split.replace_gemm_with_matmul()
        others = [node.name for node in split.nodes() if node.name not in names]
        quantizer = MatMulNBitsQuantizer(split.model, bits=8, block_size=32, accuracy_level=4, nodes_to_exclude=others)
        quantizer.process()
        made: Any = quantizer.model
    return _finished(network, ir.from_proto(made.model), modules)


def _qdq(
    model: ir.Model, chosen: Sequence[Layer], recipe: Recipe, ranges: Ranges, weights: Mapping[str, Layer]
) -> ir.Model:
    """What the quantizer makes of a model in which nobody else reads what is quantized."""
    model.metadata_props[SHAPES_ARE_THERE] = "onnxruntime.quant"
    with quiet():
        from onnxruntime.quantization import CalibrationMethod, QuantType
        from onnxruntime.quantization.calibrate import TensorsData
        from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

        data = TensorsData(
            CalibrationMethod.MinMax, {n: (np.float32(a), np.float32(b)) for n, (a, b) in ranges.items()}
        )
        overrides = {name: [{"axis": layer.axis, "symmetric": True}] for name, layer in weights.items()}
        activation = QuantType.QUInt8 if recipe.activation == "u8" else QuantType.QInt8
        names, ops = [layer.node for layer in chosen], sorted({layer.op for layer in chosen})
        options = {"OpTypesToExcludeOutputQuantization": ["Gemm", "MatMul"], "TensorQuantOverrides": overrides}
        quantizer = QDQQuantizer(
            ir.to_proto(model), True, False, QuantType.QInt8, activation, data, names, [], ops, options
        )
        quantizer.quantize_model()
    made: ir.Model = ir.from_proto(quantizer.model.model)
    return made


def _plain(model: ir.Model, nodes: Iterable[ir.Node]) -> None:
    """Make biases vectors and alpha and beta 1, in place, on copies: the quantizer takes 1-D biases for granted.

    It also forgets beta, and the runtime has no integer kernel for another alpha.
    """
    for node in nodes:
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        alpha, beta = (node.attributes.get_float(name, 1.0) if node.op_type == "Gemm" else 1.0 for name in FACTORS)
        if alpha != 1:
            weight = _input(node, 1)
            _give(model, node, 1, f"{weight.name}.{node.name}", _array(weight) * np.float32(alpha))
        if bias is not None and (beta != 1 or bias.shape is None or len(bias.shape) != 1 or bias.shape[0] == 1):
            wide = np.broadcast_to(_array(bias).reshape(-1), (_channels(node),))
            _give(model, node, 2, f"{bias.name}.{node.name}", wide * np.float32(beta))
        for name in FACTORS:
            node.attributes.pop(name, None)


def _own_weights(model: ir.Model, chosen: Sequence[Layer], unsigned: frozenset[str]) -> dict[str, Layer]:
    """Weights that are quantized, by name with a layer of each: copies where somebody else reads the weight."""
    groups, nodes = defaultdict[tuple[str, int, bool], list[Layer]](list), _by_name(model)
    for layer in chosen:
        groups[_input(nodes[layer.node], 1).name or "", layer.axis, layer.node in unsigned].append(layer)
    found = dict[str, Layer]()
    for (name, _, _), group in groups.items():
        readers = [nodes[layer.node] for layer in group]
        weight = _input(readers[0], 1)
        if not _only(weight, readers, 1):
            for node in readers:
                _give(model, node, 1, f"{name}{APART}.{readers[0].name}", _array(weight))
        found[_input(readers[0], 1).name or ""] = group[0]
    return found


def _own_values(model: ir.Model, chosen: Sequence[Layer]) -> dict[str, str]:
    """Aliases, by what they stand for, of quantized values that somebody else reads too: the quantizer takes all."""
    nodes, apart = _by_name(model), dict[str, str]()
    convolved = {layer.output for layer in chosen if layer.op == "Conv"}
    readers = defaultdict[str, list[ir.Node]](list)
    for layer in chosen:
        readers[layer.input].append(nodes[layer.node])
        nodes[layer.node].outputs[0].type = nodes[layer.node].outputs[0].type or ir.TensorType(ir.DataType.FLOAT)
    for name, own in readers.items():
        value = _input(own[0], 0)
        value.type = value.type or ir.TensorType(ir.DataType.FLOAT)  # else the quantizer leaves it out, silently
        if name in convolved or _only(value, own, 0):
            continue
        apart[name] = f"{name}{APART}"
        alias = ir.val(apart[name], type=value.type, shape=value.shape)
        model.graph.append(ir.node("Identity", [value], outputs=[alias], name=apart[name]))
        for node in own:
            node.replace_input_with(0, alias)
    return apart


def _about_128(model: ir.Model, weights: Iterable[str]) -> None:
    """Write signed weights unsigned, in place: the same numbers, for the kernel whose pairs of products never saturate.

    The quantizer widens scales so that no bias overflows only for signed weights; so they are signed until here.
    """
    for name in weights:
        for part in (f"{name}_quantized", f"{name}_zero_point"):
            value = model.graph.initializers[part]
            array = (_array(value).astype(np.int16) + 128).astype(np.uint8)
            value.const_value, value.type = ir.tensor(array, name=part), ir.TensorType(ir.DataType.UINT8)


def _products(network: Network) -> tuple[ir.Model, dict[str, str], list[str]]:
    """The whole network with plain Gemms, its modules, and its Gemm and MatMul layers as they are called once split."""
    model = network.whole()
    layers = [layer for layer in network.layers if layer.op != "Conv"]
    nodes, modules = _by_name(model), scopes.remember(model)
    _plain(model, [nodes[layer.node] for layer in layers])
    return model, modules, [f"{layer.node}_MatMul" if layer.op == "Gemm" else layer.node for layer in layers]


def _finished(network: Network, model: ir.Model, modules: Mapping[str, str]) -> ir.Model:
    """A quantizer's result as one of ours: sorted, checked, with module names, and whole."""
    model.metadata_props.pop(SHAPES_ARE_THERE, None)
    model.producer_name, model.producer_version = "gelu_deploy", None
    model.graph.sort()
    scopes.restore(model, modules)
    pipeline.check(model, "quantization")
    hollow.put_back(model, network.held)
    return model


def _range(ranges: Ranges, name: str) -> Range:
    low, high = ranges.get(name, (math.nan, math.nan))
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    raise ModelError(
        f"the value {name} has the range {low} to {high} on the calibration data; a quantized layer needs a finite "
        "one. Keep its layer in float, or calibrate on data for which the float model stays finite."
    )


def _channels(node: ir.Node) -> int:
    shape = _array(_input(node, 1)).shape
    first = node.op_type == "Conv" or node.attributes.get_int("transB", 0) == 1
    return int(shape[0 if first else -1])


def _only(value: ir.Value, readers: Sequence[ir.Node], place: int) -> bool:
    """Whether these, and nobody else, read the value."""
    return not value.is_graph_output() and {(use.node, use.idx) for use in value.uses()} == {
        (n, place) for n in readers
    }


def _give(model: ir.Model, node: ir.Node, place: int, name: str, array: Array) -> None:
    """Have ``node`` read an initializer of this name, which is made where it is not there."""
    value = model.graph.initializers.get(name)
    if value is None:
        value = ir.val(name, const_value=ir.tensor(array, name=name))
        model.graph.register_initializer(value)
    node.replace_input_with(place, value)


def _by_name(model: ir.Model) -> dict[str, ir.Node]:
    return {node.name or "": node for node in model.graph}


def _input(node: ir.Node, place: int) -> ir.Value:
    value = node.inputs[place]
    assert value is not None
    return value


def _array(value: ir.Value) -> Array:
    assert value.const_value is not None
    return value.const_value.numpy()

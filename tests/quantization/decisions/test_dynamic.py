from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
import quantize_networks as networks
from quantize_networks import constant, operators, sqnr

from gelu_deploy.graph.scopes import module_of
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.network import Integer, Network


@pytest.mark.parametrize("weight", ["s8", "u8"])
def test_dynamic_quantizes_layers_and_neither_conv_nor_gather(weight: Integer) -> None:
    make = networks.Builder()
    x, index = ir.val("x", ir.DataType.FLOAT, ("n", 64)), ir.val("index", ir.DataType.INT64, ("n",))
    table = make.weight("table", np.where(make.random.random((32, 64)) < 0.1, -np.inf, 1.0))
    floor = make.op("floor", "Max", make.op("row", "Gather", table, index), make.weight("least", np.float32(-1)))
    h = make.op("h", "Gelu", make.linear("fc1", make.op("sum", "Add", x, floor), 64, 128))
    made = networks.network(make.model([x, index], make.linear("fc2", h, 128, 64)))
    model = insert.dynamic(made, weight)
    feed = {"x": next(networks.feeds(networks.ffn(width=64)))["x"], "index": np.arange(4)}
    assert operators(model).count("DynamicQuantizeMatMul") == 2
    assert constant(model, "table").dtype == np.float32
    assert constant(model, "fc1.weight_scale").shape == (128,)
    assert sqnr(made, model, feed) > (30 if weight == "u8" else 20)  # signed products saturate on CPUs without VNNI
    assert {module_of(node) for node in model.graph if node.op_type == "MatMulInteger"} == {"fc1", "fc2"}
    convolution = operators(insert.dynamic(networks.conv(), weight))
    assert convolution.count("DynamicQuantizeMatMul") == 1
    assert "ConvInteger" not in convolution


def test_weight_only_holds_eight_bits_and_multiplies_them_as_integers() -> None:
    made = networks.block()
    model = insert.weight_only(made)
    kernels = [node for node in model.graph if node.op_type == "MatMulNBits"]
    settings = {
        tuple(node.attributes.get_int(k, 0) for k in ("bits", "block_size", "accuracy_level")) for node in kernels
    }
    assert settings == {(8, 32, 4)}
    assert operators(model).count("MatMulNBits") == len(made.layers)
    assert sqnr(made, model, next(networks.feeds(made))) > 35
    assert {module_of(node) for node in kernels} == {layer.module for layer in made.layers}


@pytest.mark.parametrize("make", [insert.dynamic, insert.weight_only])
def test_a_network_of_convolutions_alone_is_given_back_as_it_is(make: Callable[[Network], ir.Model]) -> None:
    builder = networks.Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 3, 8, 8))
    made = networks.network(builder.model([x], builder.op("y", "Conv", x, builder.normal("w", 4, 3, 3, 3))))
    assert [node.op_type for node in make(made).graph] == ["Conv"]

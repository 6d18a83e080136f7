from __future__ import annotations

import numpy as np
import onnx_ir as ir
import quantize_networks as networks

from gelu_deploy import runtime
from gelu_deploy.quantization.decisions import half
from gelu_deploy.quantization.measures import coverage


def test_half_halves_the_file_keeps_names_and_answers() -> None:
    made, feed = networks.block(), next(networks.feeds(networks.block()))
    model = half.half(made)
    want, got = (runtime.evaluate(one, feed, optimise=False)["y"] for one in (made.whole(), model))
    assert got.dtype == np.float32
    assert 0 < np.abs(want - got).max() < 5e-3 * np.abs(want).max()
    sizes = [len(ir.to_proto(one).SerializeToString()) for one in (model, made.whole())]
    assert sizes[0] < 0.6 * sizes[1]
    types = {node.op_type: value.dtype for node in model.graph for value in node.inputs[:1] if value is not None}
    assert types["Gemm"] == ir.DataType.FLOAT16
    assert {types[name] for name in ("Gelu", "LayerNormalization", "Softmax", "Add")} == {ir.DataType.FLOAT}
    assert "Cast" not in coverage.coverage(model, made.layers).operators


def test_half_leaves_weights_that_16_bits_cannot_hold() -> None:
    made = networks.ffn(width=64, hidden=256, outliers=1e5)
    model = half.half(made)
    types = {node.name: node.inputs[1].dtype for node in model.graph if node.op_type == "Gemm" and node.inputs[1]}
    assert types == {"fc1": ir.DataType.FLOAT, "fc2": ir.DataType.FLOAT16}


def test_half_takes_embeddings_too() -> None:
    make = networks.Builder()
    index = ir.val("index", ir.DataType.INT64, ("n",))
    row = make.op("row", "Gather", make.normal("table", 64, 32, scale=1.0), index)
    made = networks.network(make.model([index], make.linear("y", row, 32, 8)))
    model = half.half(made)
    assert "table" not in model.graph.initializers
    assert model.graph.initializers["table.half"].dtype == ir.DataType.FLOAT16
    assert model.graph.outputs[0].dtype == ir.DataType.FLOAT

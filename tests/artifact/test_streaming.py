"""A model written tensor by tensor: what onnx reads of it is what onnx_ir's own way writes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from gelu_deploy.artifact import streaming

BODY = '<ir_version: 11, opset_import: ["": 23]> g (float[N, 3] x) => (float[N, 3] y) { y = Identity(x) }'
MANY = 1 << 17
TYPES = [
    *(ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT8E4M3FN),
    *(ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL),
    *(ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.COMPLEX64),
]


def model(*tensors: ir.TensorProtocol) -> ir.Model:
    made = ir.from_onnx_text(BODY)
    for one in tensors:
        made.graph.register_initializer(ir.val(one.name or "", const_value=one))
    return made


def tensor(dtype: ir.DataType, shape: tuple[int, ...]) -> ir.TensorProtocol:
    numbers = np.random.default_rng(0).integers(0, 7, shape)
    return ir.Tensor(numbers.astype(dtype.numpy()), dtype, name=f"w_{dtype.name}")


def same(one: ir.Model, folder: Path) -> onnx.ModelProto:
    """What is read, which is what is read of the other way, and does not depend on where tensors stand."""
    ir.save(one, folder / "plain.onnx")
    streaming.save(one, folder / "streamed.onnx")
    found, wanted = onnx.load(folder / "streamed.onnx"), onnx.load(folder / "plain.onnx")
    names = {tensor.name: tensor for tensor in found.graph.initializer}
    assert [names[tensor.name] for tensor in wanted.graph.initializer] == list(wanted.graph.initializer)
    assert len(names) == len(found.graph.initializer)
    for proto in (found, wanted):
        proto.graph.ClearField("initializer")
    assert found == wanted
    assert (folder / "streamed.onnx").stat().st_size == (folder / "plain.onnx").stat().st_size
    return onnx.load(folder / "streamed.onnx")


@pytest.mark.parametrize("dtype", TYPES, ids=[dtype.name for dtype in TYPES])
def test_every_type(dtype: ir.DataType, tmp_path: Path) -> None:
    made = same(model(tensor(dtype, (MANY, 3)), ir.tensor([1, 2], name="small")), tmp_path)
    assert [one.name for one in made.graph.initializer] == ["small", f"w_{dtype.name}"]


@pytest.mark.parametrize("shape", [(MANY,), (2, 1, MANY), (MANY + 1,)])
def test_every_shape(shape: tuple[int, ...], tmp_path: Path) -> None:
    same(model(tensor(ir.DataType.INT4, shape), tensor(ir.DataType.FLOAT, shape)), tmp_path)


def test_numbers_that_lie_another_way(tmp_path: Path) -> None:
    numbers = np.arange(3 * MANY, dtype=np.float32).reshape(3, MANY)
    same(model(ir.tensor(numbers.T, name="turned"), ir.tensor(numbers[:, ::2], name="every other")), tmp_path)


def test_text_stays_in_the_message(tmp_path: Path) -> None:
    same(model(ir.StringTensor(np.array([b"a long word"] * MANY, object), name="words")), tmp_path)


def test_weights_of_another_file(tmp_path: Path) -> None:
    ir.save(model(tensor(ir.DataType.FLOAT, (MANY, 3))), tmp_path / "apart.onnx", external_data="weights")
    apart = ir.load(tmp_path / "apart.onnx")
    streaming.save(apart, tmp_path / "whole.onnx")
    (found,) = onnx.load(tmp_path / "whole.onnx").graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(found), tensor(ir.DataType.FLOAT, (MANY, 3)).numpy())


def test_the_model_is_the_same_afterwards(tmp_path: Path) -> None:
    made = model(tensor(ir.DataType.FLOAT, (MANY,)), tensor(ir.DataType.DOUBLE, (3,)))
    before = [(value.name, value.const_value, value.graph) for value in made.graph.initializers.values()]
    streaming.save(made, tmp_path / "m.onnx")
    after = {value.name: (value.name, value.const_value, value.graph) for value in made.graph.initializers.values()}
    assert [after[name] for name, _, _ in before] == before


def test_no_weight_is_copied(tmp_path: Path) -> None:
    made = model(tensor(ir.DataType.FLOAT, (64 * MANY,)))  # 32 MiB
    tracemalloc.start()
    streaming.save(made, tmp_path / "m.onnx")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 << 20

"""A model written into one file tensor by tensor, so that its weights are in memory once and not four times.

The bytes are what protobuf writes of the same message, but for the order of the initializers, which means nothing: the
large ones come last. It knows the three fields of protobuf's wire format that they stand in.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx_ir as ir

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # of ModelProto, GraphProto, TensorProto
_LARGE = 1 << 16  # bytes of a tensor that is not copied into a message first


def save(model: ir.Model, path: Path) -> None:
    """Write a model of at most 2 GB with all its weights; it is the same afterwards.

    Raises OSError.
    """
    large = {value: tensor for value in model.graph.initializers.values() if (tensor := _large(value)) is not None}
    try:
        for value in large:
            value.const_value = None  # onnx_ir passes over what has no numbers
        proto = ir.to_proto(model)
    finally:
        for value, tensor in large.items():
            value.const_value = tensor
    rest = proto.graph.SerializeToString()
    proto.ClearField("graph")
    heads = [_head(value.name or "", tensor) for value, tensor in large.items()]
    size = len(rest) + sum(len(head) + tensor.nbytes for head, tensor in zip(heads, large.values(), strict=True))
    with path.open("wb") as file:
        file.write(proto.SerializeToString() + _begin(_GRAPH, size) + rest)
        for head, tensor in zip(heads, large.values(), strict=True):
            file.write(head)
            _write(tensor, file)


def _large(value: ir.Value) -> ir.TensorProtocol | None:
    """Its numbers, if they are many and no text."""
    tensor = value.const_value
    return None if tensor is None or tensor.dtype == ir.DataType.STRING or tensor.nbytes <= _LARGE else tensor


def _write(tensor: ir.TensorProtocol, file: BinaryIO) -> None:
    """Its numbers, little-endian; without a copy of them where each has bytes of its own that lie in order."""
    array = tensor.numpy()
    if array.nbytes == tensor.nbytes and sys.byteorder == "little":
        np.ascontiguousarray(array).tofile(file)
    else:
        file.write(tensor.tobytes())


def _head(name: str, tensor: ir.TensorProtocol) -> bytes:
    """What comes before the numbers of an initializer."""
    from onnx import TensorProto

    sizes = [int(size) for size in tensor.shape.numpy()]
    said: bytes = TensorProto(name=name, dims=sizes, data_type=tensor.dtype.value).SerializeToString()
    body = said + _begin(_RAW_DATA, tensor.nbytes)
    return _begin(_INITIALIZER, len(body) + tensor.nbytes) + body


def _begin(field: int, size: int) -> bytes:
    """How a field of so many bytes begins: its number and that it has a length, and that."""
    return bytes([field << 3 | 2]) + _varint(size)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])

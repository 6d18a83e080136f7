"""What a model file says of itself, and the digest that ends it; read and written without parsing the graph.

Each fact is a metadata entry ``gelu_deploy.<key>``. The last one, ``gelu_deploy.digest``, ends the file with 64 hex
digits: the SHA-256 of every byte before them. A single flipped bit anywhere is found: it cannot hide the digest and the
entry before it both. The module knows the outermost layer of protobuf's wire format and nothing of graphs.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

PREFIX = "gelu_deploy."
_DIGEST = f"{PREFIX}digest"
_DIGITS = 64
_END = 4096  # bytes at the end of a sealed file that surely hold its last two entries
_METADATA_FIELD = 14  # ModelProto.metadata_props
_BEGIN = re.compile(rb"\x72[\x80-\xff]{0,4}[\x00-\x7f]\x0a.gelu_deploy\.\w*(?:\x12|\Z)", re.DOTALL)
"""How an entry begins. Names of nodes and constants may have our prefix too, in files of anybody."""


class Seal:
    """A serialised model to which metadata and a digest are appended, as often as needed.

    Args:
        path: A model without metadata of ours. It is read once, here.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = path.stat().st_size
        with path.open("rb") as file:
            self._base = hashlib.file_digest(file, "sha256")

    def put(self, values: Mapping[str, str]) -> None:
        """Replace what was appended before by these entries, in order, and the digest. Raises OSError."""
        body = b"".join(_entry(f"{PREFIX}{key}", value) for key, value in values.items())
        body += _entry(_DIGEST, "0" * _DIGITS)[:-_DIGITS]
        digest = self._base.copy()
        digest.update(body)
        with self._path.open("r+b") as file:
            file.truncate(self._size)
            file.seek(self._size)
            file.write(body + digest.hexdigest().encode())


def entries(path: Path) -> dict[str, str]:
    """Our metadata by key without ``gelu_deploy.``, as text; what can be found of it when the file is damaged."""
    if path.stat().st_size == 0:
        return {}
    found: dict[str, str] = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            for number, start, end in _fields(data, 0, len(data)):
                if number != _METADATA_FIELD:
                    continue
                pair = {inner: data[first:last].decode() for inner, first, last in _fields(data, start, end)}
                if pair.get(1, "").startswith(PREFIX):
                    found[pair[1].removeprefix(PREFIX)] = pair.get(2, "")
        except (ValueError, IndexError):
            return found
    return found


def is_sealed(path: Path) -> bool:
    """Whether the file is, or was before it was damaged, one of ours."""
    with path.open("rb") as file:
        return _BEGIN.search(_end(file, _END)) is not None or bool(entries(path))


def is_intact(path: Path) -> bool:
    """Whether a sealed file is byte for byte as it was written."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        written = _end(file, _DIGITS)
        left = file.seek(0, 1) - len(written)
        file.seek(0)
        while left and (chunk := file.read(min(left, 1 << 20))):
            digest.update(chunk)
            left -= len(chunk)
    return written == digest.hexdigest().encode()


def _end(file: BinaryIO, size: int) -> bytes:
    file.seek(max(0, file.seek(0, 2) - size))
    return file.read()


def _entry(key: str, value: str) -> bytes:
    """One entry as a message of its own: protobuf messages merge when their bytes are joined."""
    from onnx import ModelProto, StringStringEntryProto

    return bytes(ModelProto(metadata_props=[StringStringEntryProto(key=key, value=value)]).SerializeToString())


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of each field with a body, of the message in these bytes.

    Raises:
        ValueError, IndexError: They are no message.
    """
    while at < end:
        key, at = _varint(data, at)
        kind, size = key & 7, 0
        if kind == 0:
            _, at = _varint(data, at)
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in {1, 5}:
            size = {1: 8, 5: 4}[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > end:
            raise ValueError("a field ends beyond its message")
        yield key >> 3, at, at + size
        at += size


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    """The number that starts here, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")

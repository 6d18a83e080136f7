"""Name a file that is not of PyTorch's making, from its first bytes: an ONNX model, safetensors, or a mistake.

It reads a few kilobytes, executes nothing, and knows nothing of what is done with the answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from gelu_deploy.errors import ModelError

_AGAIN = "download or copy it again"
_MAX_HEADER = 100_000_000
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (257, b"ustar", "a tar archive; unpack it and name the file of weights in it"),
    (0, b"\x1f\x8b", "gzip-compressed; unpack it first (gunzip, or tar -xzf)"),
    (0, b"BZh", "bzip2-compressed; unpack it first"),
    (0, b"\xfd7zXZ", "xz-compressed; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed; unpack it first"),
    (0, b"7z\xbc\xaf", "a 7z archive; unpack it first"),
    (0, b"\x89HDF", "an HDF5 file, probably Keras weights; export them from Keras (model.export(format='onnx'))"),
    (0, b"GGUF", "a GGUF file of llama.cpp; take the original PyTorch weights instead"),
    (4, b"TFL3", "a TensorFlow Lite model; convert it with tf2onnx and give the .onnx file"),
    (4, b"ORTM", "a model in ONNX Runtime's own .ort format; give the .onnx file it was made from"),
    (0, b"\x93NUMPY", "a NumPy array, not a network; it may be what --data takes"),
    (0, b"\x7fELF", "a program or shared library; compiled code holds no network to export"),
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"%PDF", "a PDF document"),
)
# Field numbers of onnx.ModelProto and onnx.GraphProto, with their protobuf wire types (0 integer, 2 bytes).
_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_GRAPH_FIELDS = {1, 2, 5, 10, 11, 12, 13, 14, 15, 16}


def size_text(size: int) -> str:
    """Bytes for a reader: ``0.4 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= 0.1 * scale and size >= 10_000:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


def shown(text: str) -> str:
    """A name from a file, fit for a message: short, and without characters that move a terminal's cursor."""
    return "".join(char if char.isprintable() else "?" for char in text[:100]) + ("…" if len(text) > 100 else "")


def some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    return shown(", ".join(every[:4])) + (f" and {len(every) - 4} more" if len(every) > 4 else "")


def check_text(path: str, head: bytes, size: int) -> None:
    """Raise ModelError if the file is empty or text of any kind, saying which."""
    if not size:
        raise ModelError(f"{path} is an empty file; {_AGAIN}, or save it anew.")
    text = _as_text(head)
    if text is None:
        return
    start = text.lstrip("\ufeff \t\r\n").lower()
    if start.startswith("version https://git-lfs"):
        raise ModelError(f"{path} is a Git LFS pointer, not the file itself; fetch it with: git lfs pull")
    if start.startswith(("<!doctype html", "<html", "<head", "<body")):
        raise ModelError(f"{path} is an HTML page: the download gave a web page instead of the file; {_AGAIN}.")
    if path.endswith(".py"):
        raise ModelError(f"{path} is Python source; say what to take from it: {path}:NAME")
    what = "JSON text" if start.startswith(("{", "[")) else "a text file"
    raise ModelError(f"{path} is {what}, not a model: it begins with {text[:40].strip()!r}. Name the model itself.")


def unknown(path: str, head: bytes, size: int) -> ModelError:
    """The error for a file that nothing here recognises."""
    for offset, magic, what in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return ModelError(f"{path} is {what}.")
    return ModelError(
        f"{path} is no kind of model known here ({size_text(size)}, first bytes {head[:8].hex(' ')}). Expected a file"
        " of torch.save, torch.jit.save or torch.export.save, safetensors, ONNX, or a Hugging Face folder."
    )


def safetensors(path: str, head: bytes, size: int) -> int | None:
    """How many tensors a safetensors file holds; None if it is something else. Raises ModelError if it is damaged."""
    length = int.from_bytes(head[:8], "little")
    if size < 10 or not 2 <= length <= _MAX_HEADER or head[8:9] != b"{":
        return None
    if length + 8 > size:
        raise ModelError(f"{path} is a truncated safetensors file: {size} of at least {length + 8} bytes; {_AGAIN}.")
    with Path(path).open("rb") as stream:
        stream.seek(8)
        raw = stream.read(length)
    try:
        header: dict[str, Any] = json.loads(raw)
        entries = [entry for name, entry in header.items() if name != "__metadata__"]
        whole = 8 + length + max((int(entry["data_offsets"][1]) for entry in entries), default=0)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise ModelError(f"{path} is a damaged safetensors file: its header is not what the format says.") from None
    if whole > size:
        raise ModelError(f"{path} is a truncated safetensors file: {size} of {whole} bytes; {_AGAIN}.")
    return len(entries)


def onnx_producer(path: str, size: int) -> str | None:
    """Who made an ONNX file (``""`` if it does not say); None if it is something else.

    The outermost protobuf fields must be those of ModelProto, with a graph among them, and end where the file ends.

    Raises:
        ModelError: It is an ONNX file that is cut off.
    """
    producer, graph = "", False
    with Path(path).open("rb") as stream:
        while stream.tell() < size:
            tag = _varint(stream)
            if tag is None or _MODEL_FIELDS.get(tag >> 3) != tag & 7:
                return None
            value = _varint(stream)
            if value is None:
                return None
            if tag & 7 == 0:
                continue
            end = stream.tell() + value
            if tag >> 3 == 7:
                inner = _varint(stream) if value else None
                graph = graph or inner is None or inner >> 3 in _GRAPH_FIELDS
            elif tag >> 3 == 2 and value < 100:
                producer = stream.read(value).decode("utf-8", "replace")
            if end > size and graph:
                raise ModelError(f"{path} is a truncated ONNX file: {size} of at least {end} bytes; {_AGAIN}.")
            if end > size:
                return None
            stream.seek(end, os.SEEK_SET)
    return producer if graph else None


def _as_text(head: bytes) -> str | None:
    for encoding in ("utf-8", "utf-16") if head[:2] in {b"\xff\xfe", b"\xfe\xff"} else ("utf-8",):
        for cut in range(4):
            try:
                text = head[: len(head) - cut].decode(encoding)
            except UnicodeDecodeError:
                continue
            return text if text and all(c.isprintable() or c in "\t\r\n\f\ufeff" for c in text) else None
    return None


def _varint(stream: IO[bytes]) -> int | None:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None

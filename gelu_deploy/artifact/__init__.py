"""A model on disk: ``NAME.onnx`` and the files it names by content hash; written whole, hashed, verified.

``NAME-<hash>.data`` holds the weights when they are many, ``NAME-<hash>.golden.npz`` golden data; ``NAME.report.json``
lies beside them and is not named by the model. What the model says of itself stands in its metadata under
``gelu_deploy.<key>`` as JSON, sealed by a digest. The module knows neither PyTorch nor a runtime, and reading needs no
ONNX library either.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelu_deploy.artifact import golden
from gelu_deploy.artifact.golden import Case
from gelu_deploy.artifact.seal import PREFIX, Seal, entries, is_intact, is_sealed
from gelu_deploy.artifact.staging import Staging, locked, reporting, shortened, staging
from gelu_deploy.errors import ModelError
from gelu_deploy.strict_json import finite

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["Case", "Stage", "cases", "metadata", "size", "stage", "to_json", "verify"]

_STEM = 200  # bytes of NAME that the hashed names keep: a long NAME leaves no room for more
_INLINE = 1024  # bytes of a tensor that stays in the graph even when the weights do not: shapes, constants
_PROTOBUF = 1.9e9  # bytes of weights that surely fit in a protobuf, whose limit is 2 GiB


class Stage:
    """An artifact in the making; see :func:`stage`.

    Attributes:
        model: The staged ``.onnx``, which can be loaded and judged like the final one.
    """

    def __init__(self, place: Staging) -> None:
        self.model = place.folder / place.target.name
        self._place = place
        self._metadata: dict[str, Any] = {}

    def write(
        self,
        model: ir.Model,
        metadata: Mapping[str, Any],
        *,
        cases: Sequence[Case] = (),
        threshold: float = 1.5e9,
    ) -> Path:
        """Write the model, its weights and golden data into the stage; a second call starts anew.

        Args:
            model: Loses the ``gelu_deploy.`` metadata it came with; its weights that lie in other files are loaded
                when they are to lie in the model.
            metadata: Becomes ``gelu_deploy.<key>``; values as JSON has them. ``files`` and ``digest`` are ours.
            cases: Golden data.
            threshold: Bytes of weights above which they go to a file of their own; a protobuf's limit comes first.

        Returns:
            The path of the staged ``.onnx``.

        Raises:
            OutputError: The disk is full, a limit was reached, or the like.
        """
        self._place.clear()
        for key in [key for key in model.metadata_props if key.startswith(PREFIX)]:
            del model.metadata_props[key]
        with reporting(self._place.target):
            files = _write_model(self.model, model, threshold) | _write_golden(self.model, cases)
            self._seal = Seal(self.model)
        self._metadata = {"files": files}
        self.amend(metadata)
        return self.model

    def amend(self, metadata: Mapping[str, Any]) -> None:
        """Add to the metadata of the staged model, for example the verdict on it. Raises OutputError."""
        self._metadata = {**self._metadata, **metadata, "files": self._metadata["files"]}
        last = sorted(self._metadata, key=lambda key: (key == "files", key))
        with reporting(self._place.target):
            self._seal.put({key: to_json(self._metadata[key]) for key in last})

    def publish(self, report: Mapping[str, Any]) -> list[Path]:
        """Move everything into place, then remove hashed files of earlier versions that no model names any more.

        Args:
            report: What was measured, for ``NAME.report.json``; the model's digest is added.

        Returns:
            The final paths, the ``.onnx`` last.

        Raises:
            OutputError: The model that was there before is still there, whole.
        """
        path = self.model.with_name(f"{_stem(self.model)}.report.json")
        with reporting(self._place.target):
            path.write_text(to_json({**report, "digest": entries(self.model)["digest"]}, indent=2) + "\n")
        try:
            return self._place.publish()
        finally:
            _collect(self._place.target)


@contextmanager
def stage(path: str | os.PathLike[str], *, overwrite: bool = False) -> Generator[Stage]:
    """A place to build the artifact ``path``; without :meth:`Stage.publish` nothing of it remains.

    Raises:
        OutputError: At once, when nothing could be written there (see :func:`gelu_deploy.artifact.staging.staging`).
    """
    with staging(path, overwrite=overwrite) as place:
        yield Stage(place)


def verify(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata of an artifact whose every byte is as it was written; ``{}`` for a file of someone else's.

    Raises:
        ModelError: A file of the artifact is damaged, changed or missing; the message names it.
    """
    file = Path(os.path.realpath(path))
    with _reading(file):
        if not is_sealed(file):
            return {}
        if not is_intact(file):
            raise ModelError(
                f"{file} is damaged, or another tool changed it after gelu_deploy wrote it: it does not match its "
                f"own digest. Export it again; for a change that is meant, remove its {PREFIX}* metadata."
            )
    found = metadata(file)
    for name, digest in found["files"].items():
        _verify_companion(file, name, digest)
    return found


def metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the model says of itself, by key without ``gelu_deploy.``; ``{}`` for a file of someone else's.

    Nothing is verified. ``files`` maps the names of the artifact's other files to their SHA-256.

    Raises:
        ModelError: The file cannot be read, or an entry is damaged.
    """
    file = Path(path)
    with _reading(file):
        texts = entries(file)
    try:
        return {key: text if key == "digest" else json.loads(text) for key, text in texts.items()}
    except ValueError as error:
        raise ModelError(f"The metadata of {file} is damaged: {error}. Export it again.") from None


def cases(path: str | os.PathLike[str]) -> list[Case]:
    """The golden data saved with a model; empty when it has none.

    Raises:
        ModelError: The file of golden data is damaged or missing.
    """
    file = Path(os.path.realpath(path))
    for name, digest in metadata(file).get("files", {}).items():
        if name.endswith(".golden.npz"):
            _verify_companion(file, name, digest)
            return golden.read(file.with_name(name))
    return []


def size(path: str | os.PathLike[str]) -> int:
    """Bytes of a model and of its weights beside it, whoever wrote it; golden data are not counted.

    Raises:
        ModelError: The file, or one of its weights, cannot be read.
    """
    file = Path(path)
    with _reading(file):
        names = set(metadata(file).get("files", {})) if is_sealed(file) else _weights_of_another(file)
        beside = [name for name in names if not name.endswith(".golden.npz")]
        return file.stat().st_size + sum(file.with_name(name).stat().st_size for name in beside)


def to_json(value: object, *, indent: int | None = None) -> str:
    """JSON with sorted keys; NaN and infinities, which JSON has no word for, become null."""
    return json.dumps(finite(value), indent=indent, sort_keys=True, allow_nan=False)


def _write_model(path: Path, model: ir.Model, threshold: float) -> dict[str, str]:
    """Write the model and return the name and hash of the file of its weights, if they get one."""
    import onnx_ir as ir

    from gelu_deploy.artifact import streaming

    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    tensors = [value.const_value for value in values if value.const_value is not None]
    large = [tensor for tensor in tensors if tensor.nbytes > _INLINE]
    if sum(tensor.nbytes for tensor in large) <= min(threshold, _PROTOBUF):
        for value in values:
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = _in_memory(value.const_value)
        streaming.save(model, path)
        return {}
    digest = hashlib.sha256()
    for tensor in large:
        digest.update(tensor.tobytes())  # onnx_ir writes them densely in this order
    name = f"{_hashed(path, digest.hexdigest())}.data"
    ir.save(model, path, external_data=name, size_threshold_bytes=_INLINE)
    return {name: digest.hexdigest()}


def _in_memory(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    """A copy; onnx_ir's own way closes the file, which fails while a session still reads from it."""
    import onnx_ir as ir

    return ir.Tensor(tensor.numpy().copy(), tensor.dtype, shape=tensor.shape, name=tensor.name)


def _write_golden(model: Path, cases: Sequence[Case]) -> dict[str, str]:
    if not cases:
        return {}
    draft = model.with_name(f"{_stem(model)}.golden.npz")
    golden.write(draft, cases)
    digest = _sha256(draft)
    name = f"{_hashed(model, digest)}.golden.npz"
    draft.rename(model.with_name(name))
    return {name: digest}


def _weights_of_another(file: Path) -> set[str]:
    """The files in which a model of someone else's has weights, relative to its own folder."""
    import onnx_ir as ir

    values = (value for graph in ir.load(file).graphs() for value in graph.initializers.values())
    tensors = (value.const_value for value in values)
    return {str(tensor.location) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}


def _verify_companion(model: Path, name: str, digest: str) -> None:
    file = model.with_name(name)
    if not file.is_file():
        raise ModelError(f"{file} is missing, a part of {model.name}. Put it beside the model, or export it again.")
    with _reading(file):
        if _sha256(file) != digest:
            raise ModelError(f"{file} is damaged, or belongs to another {model.name}. Copy both or export it again.")


def _collect(target: Path) -> None:
    """Remove hashed files of earlier versions of ``target`` that no model of its folder names.

    Whatever stands in the way leaves them for the next time: the artifact itself is complete.
    """
    pattern = re.compile(re.escape(_hashed(target, "")) + r"[0-9a-f]{12}\.(data|golden\.npz)")
    with suppress(OSError, ModelError), locked(target):
        candidates = {file.name for file in target.parent.iterdir() if pattern.fullmatch(file.name)}
        for model in [target, *target.parent.glob("*.onnx")] if candidates else ():
            candidates -= set(metadata(model).get("files", {})) if model.is_file() else set()
        for name in candidates:
            target.with_name(name).unlink(missing_ok=True)


@contextmanager
def _reading(file: Path) -> Generator[None]:
    if not file.is_file():
        problem = "is a folder or a device, not a file" if file.exists() else "does not exist"
        raise ModelError(f"{file} {problem}; expected an ONNX model.")
    try:
        yield
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror or error}.") from error


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _hashed(model: Path, digest: str) -> str:
    return f"{shortened(_stem(model), _STEM)}-{digest[:12]}"


def _stem(model: Path) -> str:
    return model.name.removesuffix(".onnx")

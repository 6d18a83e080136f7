"""What is this file? Decided from its bytes, executing nothing, and said in one line.

It knows the containers (zip, pickle, folder) and asks ``skeleton`` and ``sniff`` about what is inside. It knows neither
torch nor ONNX, and nothing of how a file is loaded or what may be trusted.
"""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from gelu_deploy.errors import ModelError, TargetError
from gelu_deploy.source import skeleton, sniff
from gelu_deploy.source.skeleton import Skeleton, SkeletonError, Thing
from gelu_deploy.target import split

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_MAX_CODE = 64 << 20
_WEIGHT_KEYS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "module", "params")
_FOLDER_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_FOLDER_INDEXES = tuple(f"{name}.index.json" for name in _FOLDER_WEIGHTS)
_MODEL_SUFFIXES = {".pt", ".pth", ".ckpt", ".bin", ".pt2", ".safetensors", ".onnx"}
_RESAVE = "save the weights alone: torch.save(model.state_dict(), 'weights.pt')"


class Kind(StrEnum):
    """What people hand over as a model."""

    MODULE_PICKLE = "module_pickle"
    STATE_DICT = "state_dict"
    CHECKPOINT = "checkpoint"
    TORCHSCRIPT = "torchscript"
    EXPORTED_PROGRAM = "exported_program"
    SAFETENSORS = "safetensors"
    ONNX = "onnx"
    TARGET = "target"
    HF_FOLDER = "hf_folder"


@dataclass(frozen=True)
class Source:
    """A model, named for what it is.

    Attributes:
        path: As it was given.
        kind: Which of the nine kinds it is.
        line: One line for a reader: ``digits_vit.pt: state_dict, 44 tensors, 0.4 MB``.
        globals: Full names that its pickle would import, in order; empty where there is no pickle.
        weights: For a checkpoint, the keys that lead to the state_dict inside.
        others: For a checkpoint, keys of other dicts of about as many tensors.
        size: Bytes on the disk; 0 for a target.
    """

    path: str
    kind: Kind
    line: str
    globals: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    size: int = 0


def identify(path: str) -> Source:
    """Say what ``path`` is: a file, a folder, or a target (``FILE.py:NAME``, ``MODULE:NAME``).

    Raises:
        ModelError: It is missing, damaged, or not a model; the message names what it is and what to do.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path would lose the spelling that messages repeat
        if stat.S_ISDIR(found.st_mode):
            return _folder(path)
        if not stat.S_ISREG(found.st_mode):
            raise ModelError(f"{path} is a {_special(found.st_mode)}, not a file; save the model to a file first.")
        return _file(path, found.st_size)
    except FileNotFoundError:
        return _target(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def require_onnx(path: str) -> None:
    """Raise ModelError, saying what ``path`` is, unless it is an ONNX file."""
    found = identify(path)
    if found.kind != Kind.ONNX:
        raise ModelError(f"{found.line}. Expected an ONNX file; make one with: gelu-deploy export {found.path}")


def _file(path: str, size: int) -> Source:
    with Path(path).open("rb") as stream:
        head = stream.read(1024)
    if head[:2] == b"PK":
        return _zip(path, size)
    if head[:1] == b"\x80" and head[1:2] in {b"\2", b"\3", b"\4", b"\5"}:
        return _legacy(path, size)
    count = sniff.safetensors(path, head, size)
    if count is not None:
        return Source(path, Kind.SAFETENSORS, _line(path, size, "safetensors", _tensors(count)), size=size)
    sniff.check_text(path, head, size)
    producer = sniff.onnx_producer(path, size)
    if producer is not None:
        what = f"ONNX model by {sniff.shown(producer)}" if producer else "ONNX model"
        return Source(path, Kind.ONNX, _line(path, size, what), size=size)
    raise sniff.unknown(path, head, size)


def _target(path: str) -> Source:
    try:
        where, name = split(path)
    except TargetError:
        raise _missing(path) from None
    if where.endswith(".py") and not Path(where).is_file():
        raise _missing(where)
    if not where.endswith(".py") and not where.replace(".", "_").isidentifier():
        raise _missing(path)
    return Source(path, Kind.TARGET, f"{path}: {name} from {'file' if where.endswith('.py') else 'module'} {where}")


def _missing(path: str) -> ModelError:
    if not path:
        return ModelError("the model's path is empty; name a file, a folder, FILE.py:NAME or MODULE:NAME.")
    folder = Path(path).parent
    if not folder.is_dir():
        return ModelError(f"{path}: no such file; the folder {folder} does not exist either.")
    names = sorted(entry.name for entry in folder.iterdir()) if os.access(folder, os.R_OK) else []
    near = get_close_matches(Path(path).name, names, n=1, cutoff=0.75)
    return ModelError(f"{path}: no such file." + (f" Did you mean {folder / near[0]}?" if near else ""))


def _special(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "named pipe (FIFO)"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "character device"))
    return next((name for test, name in kinds if test(mode)), "block device")


def _folder(path: str) -> Source:
    names = sorted(entry.name for entry in Path(path).iterdir())
    models = [name for name in names if Path(name).suffix in _MODEL_SUFFIXES]
    if "config.json" not in names:
        offer = f"it holds {sniff.some(models)}: name one of them." if models else "it holds no file of weights either."
        raise ModelError(f"{path} is a folder without config.json, so it is no Hugging Face model; {offer}")
    weights = next((name for name in (*_FOLDER_WEIGHTS, *_FOLDER_INDEXES) if name in names), None)
    if weights is None:
        raise ModelError(f"{path} has a config.json but no weights; expected one of {sniff.some(_FOLDER_WEIGHTS)}.")
    file = Path(path, weights)
    with file.open("rb") as stream:
        head = stream.read(1024)
    if file.suffix != ".json" or head.startswith(b"version "):
        sniff.check_text(str(file), head, file.stat().st_size)
    try:
        config: Any = json.loads(Path(path, "config.json").read_bytes())
        network = sniff.shown(str((config.get("architectures") or ["?"])[0]))
    except (ValueError, AttributeError, LookupError, RecursionError):
        raise ModelError(f"{Path(path, 'config.json')} is not the JSON object that it should be.") from None
    size = sum(Path(path, name).stat().st_size for name in models)
    return Source(path, Kind.HF_FOLDER, _line(path, size, f"Hugging Face folder, {network}", weights), size=size)


def _zip(path: str, size: int) -> Source:
    try:
        with zipfile.ZipFile(path) as archive:
            return _archive(path, size, archive)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        found = f"{size} bytes, but the directory at its end is missing or does not fit ({error})"
        raise ModelError(f"{path} is a truncated or damaged zip archive: {found}; download or copy it again.") from None


def _archive(path: str, size: int, archive: zipfile.ZipFile) -> Source:
    names = archive.namelist()
    root = names[0].partition("/")[0] if names else ""
    inside = {name.removeprefix(f"{root}/") for name in names}
    blobs = sum(name.startswith(("data/", "tensors/")) and not name.endswith(".json") for name in inside)
    if not inside & {"data.pkl", "archive_format", "serialized_exported_program.json"}:
        raise ModelError(f"{path} is a zip archive of {sniff.some(sorted(names)) or 'nothing'}, not a model.")
    _check_records(path, size, archive.infolist())
    if "serialized_exported_program.json" in inside or _small(archive, f"{root}/archive_format") == b"pt2":
        held = sum(name.startswith("data/weights/weight") for name in inside)
        return Source(path, Kind.EXPORTED_PROGRAM, _line(path, size, "ExportedProgram", _tensors(held)), size=size)
    if ".data/extern_modules" in inside:
        raise ModelError(f"{path} is a torch.package archive, which carries its own code; {_RESAVE}.")
    if "constants.pkl" in inside and any(name.startswith("code/") for name in inside):
        return Source(path, Kind.TORCHSCRIPT, _line(path, size, "TorchScript", _tensors(blobs)), size=size)
    if archive.getinfo(f"{root}/data.pkl").file_size > skeleton.MAX_BYTES:
        raise ModelError(f"{path}: its pickle has more than {skeleton.MAX_BYTES >> 20} MiB besides tensors; {_RESAVE}.")
    return _pickled(path, size, _skeleton(path, io.BytesIO(archive.read(f"{root}/data.pkl"))))


def _check_records(path: str, size: int, records: list[zipfile.ZipInfo]) -> None:
    """Torch stores its records as they are, source text apart; anything else is made to exhaust memory."""
    code = [record for record in records if "/code/" in record.filename]
    blobs = [record for record in records if "/code/" not in record.filename]
    packed = any(record.compress_type != zipfile.ZIP_STORED for record in blobs)
    if packed or _unpacked(blobs) > size or _unpacked(code) > _MAX_CODE:
        grown = f"{sniff.size_text(size)} that would unpack to {sniff.size_text(_unpacked(records))}"
        raise ModelError(f"{path} is compressed ({grown}), as torch never writes a file: refused as a zip bomb.")
    if len({record.filename for record in records}) < len(records):
        raise ModelError(f"{path} holds records of the same name, as torch never writes a file: refused as damaged.")


def _unpacked(records: list[zipfile.ZipInfo]) -> int:
    return sum(record.file_size for record in records)


def _small(archive: zipfile.ZipFile, name: str) -> bytes:
    return archive.read(name).strip() if name in archive.namelist() and archive.getinfo(name).file_size < 100 else b""


def _legacy(path: str, size: int) -> Source:
    """The format of torch before 1.6: five pickles, then the bytes of the tensors."""
    with Path(path).open("rb") as stream:
        if _skeleton(path, stream).root != _LEGACY_MAGIC:
            raise ModelError(f"{path} is a plain pickle (pickle.dump, joblib), which torch does not read; {_RESAVE}.")
        for _ in ("protocol", "system"):
            _skeleton(path, stream)
        return _pickled(path, size, _skeleton(path, stream))


def _skeleton(path: str, stream: IO[bytes]) -> Skeleton:
    try:
        return skeleton.read(stream)
    except SkeletonError as error:
        raise ModelError(f"{path}: its pickle {error}.") from None


def _pickled(path: str, size: int, found: Skeleton) -> Source:
    try:
        objects = list(found.walk())
    except SkeletonError as error:
        raise ModelError(f"{path}: its pickle {error}.") from None
    things = [(keys, value) for keys, value in objects if isinstance(value, Thing)]
    count = sum(value.is_tensor for _, value in things)
    modules = [(keys, value) for keys, value in things if value.is_module]
    if not modules and isinstance(found.root, Thing) and not found.root.is_tensor:
        modules = [((), found.root)]
    dicts = {keys: held for keys, value in objects if (held := _held(keys, value))}
    if not modules and not dicts:
        modules = [(keys, value) for keys, value in things if value.is_foreign]
    if modules:
        keys, value = modules[0]
        what = f"pickled {'module' if value.is_module else 'object'} {sniff.shown(value.class_name)}" + _at(keys)
        return Source(path, Kind.MODULE_PICKLE, _line(path, size, what, _tensors(count)), found.globals, size=size)
    if not dicts:
        raise ModelError(f"{path} holds {_content(found.root)} and no dict of weights; {_RESAVE}.")
    return _weights(path, size, found.globals, dicts)


def _weights(path: str, size: int, names: tuple[str, ...], dicts: dict[tuple[str, ...], int]) -> Source:
    full = [keys for keys, held in dicts.items() if 2 * held >= max(dicts.values())]
    best = min(full, key=lambda keys: (bool(keys), _rank(keys), -dicts[keys]))
    if not best:
        line = _line(path, size, "state_dict", _tensors(dicts[best]))
        return Source(path, Kind.STATE_DICT, line, names, size=size)
    others = tuple(".".join(keys) for keys in full if keys != best)
    line = _line(path, size, "training checkpoint", f"{_tensors(dicts[best])}{_at(best)}")
    return Source(path, Kind.CHECKPOINT, line, names, best, others, size)


def _held(keys: tuple[str, ...], value: Any) -> int:
    """How many weights a dict holds directly; an optimizer's tensors are none."""
    if not isinstance(value, dict) or "?" in keys or any("optim" in key.lower() for key in keys):
        return 0
    return sum(isinstance(key, str) and isinstance(item, Thing) and item.is_tensor for key, item in value.items())


def _rank(keys: tuple[str, ...]) -> int:
    return next((rank for rank, name in enumerate(_WEIGHT_KEYS) if name in keys), len(_WEIGHT_KEYS))


def _content(root: Any) -> str:
    if root is None:
        return "nothing"
    if isinstance(root, Thing):
        return "a single tensor"
    if isinstance(root, dict):
        return f"a dict with the keys {sniff.some([key for key in root if isinstance(key, str)]) or 'none'}"
    return f"a list of {len(root)} items" if isinstance(root, list) else f"a value of type {type(root).__name__}"


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count} tensors"


def _at(keys: tuple[str, ...]) -> str:
    return f" at {sniff.shown('.'.join(keys))}" if keys and "?" not in keys else ""


def _line(path: str, size: int, *facts: str) -> str:
    return f"{Path(path).name or path}: {', '.join(facts)}, {sniff.size_text(size)}"

"""What a file is: the nine kinds, the mistakes, and files made to do harm. Nothing is executed."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file

from gelu_deploy.errors import ModelError
from gelu_deploy.source import Kind, Source, identify

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.flag}",)


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())


def saved(folder: Path, content: object, **options: Any) -> Source:
    torch.save(content, folder / "model.pt", **options)
    return identify(str(folder / "model.pt"))


def archive(path: Path, pickled: bytes, method: int = zipfile.ZIP_STORED, data: bytes = b"") -> str:
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("model/data.pkl", pickled)
        made.writestr("model/data/0", data)
    return str(path)


def refusal(path: Path | str) -> str:
    start = time.perf_counter()
    with pytest.raises(ModelError) as caught:
        identify(str(path))
    assert time.perf_counter() - start < 20
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("zipped", [True, False])
def test_state_dict(tmp_path: Path, zipped: bool) -> None:
    found = saved(tmp_path, network().state_dict(), _use_new_zipfile_serialization=zipped)
    assert found.kind == Kind.STATE_DICT
    assert found.line.startswith("model.pt: state_dict, 2 tensors, ")
    assert found.globals == ("collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.FloatStorage")


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_module(tmp_path: Path, zipped: bool) -> None:
    found = saved(tmp_path, network(), _use_new_zipfile_serialization=zipped)
    assert found.kind == Kind.MODULE_PICKLE
    assert "pickled module torch.nn.modules.container.Sequential, 2 tensors" in found.line
    assert "torch.nn.modules.linear.Linear" in found.globals


def test_pickled_module_inside_a_dict(tmp_path: Path) -> None:
    found = saved(tmp_path, {"epoch": 3, "model": network()})
    assert (found.kind, " at model" in found.line) == (Kind.MODULE_PICKLE, True)


def test_checkpoint(tmp_path: Path) -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    content = {"epoch": 1, "ema": model.state_dict(), "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    found = saved(tmp_path, content)
    assert (found.kind, found.weights, found.others) == (Kind.CHECKPOINT, ("model",), ("ema",))
    assert "training checkpoint, 2 tensors at model" in found.line


def test_nested_checkpoint_without_a_known_key(tmp_path: Path) -> None:
    found = saved(tmp_path, {"run": {"generator": network().state_dict(), "step": torch.tensor(3)}})
    assert (found.kind, found.weights) == (Kind.CHECKPOINT, ("run", "generator"))


@pytest.mark.filterwarnings("ignore:`torch.jit")  # making the file is the test's business
def test_torchscript(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(network()), str(tmp_path / "model.pt"))
    found = identify(str(tmp_path / "model.pt"))
    assert (found.kind, found.line.startswith("model.pt: TorchScript, 2 tensors")) == (Kind.TORCHSCRIPT, True)


def test_exported_program(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(network(), (torch.ones(2, 4),)), tmp_path / "model.pt2")
    (tmp_path / "model.pt2").rename(tmp_path / "model.pt")
    found = identify(str(tmp_path / "model.pt"))
    assert (found.kind, "ExportedProgram, 2 tensors" in found.line) == (Kind.EXPORTED_PROGRAM, True)


def test_safetensors(tmp_path: Path) -> None:
    save_file(network().state_dict(), tmp_path / "model.pt")
    found = identify(str(tmp_path / "model.pt"))
    assert (found.kind, "safetensors, 2 tensors" in found.line) == (Kind.SAFETENSORS, True)


def onnx_bytes() -> bytes:
    graph = onnx.parser.parse_graph("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    made: bytes = onnx.helper.make_model(graph, producer_name="someone").SerializeToString()
    return made


def test_onnx(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(onnx_bytes())
    found = identify(str(tmp_path / "model.pt"))
    assert (found.kind, "ONNX model by someone" in found.line) == (Kind.ONNX, True)


def test_target(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("raise SystemExit")
    assert identify(f"{tmp_path}/net.py:make").kind == Kind.TARGET
    assert identify("package.module:make").kind == Kind.TARGET


def test_hugging_face_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    save_file({"w": torch.ones(3)}, tmp_path / "model.safetensors")
    found = identify(str(tmp_path))
    assert (found.kind, "Hugging Face folder, BertModel, model.safetensors" in found.line) == (Kind.HF_FOLDER, True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b"hello there\n", "a text file"),
        ("grüße\n".encode() * 400, "a text file"),
        (b'{"a": 1}', "JSON text"),
        (b"\n <!DOCTYPE html>\n<html>", "an HTML page"),
        (LFS.encode(), "Git LFS pointer"),
        (b"\x1f\x8b\x08\x00" + bytes(20), "gzip-compressed"),
        (b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5"),
        (bytes(range(128, 256)) * 4, "no kind of model known here"),
        (b"PK\x03\x04" + bytes(200), "truncated or damaged zip"),
        (pickle.dumps({"a": 1}), "plain pickle"),
        (b"\x80\x02\x8a", "cut off"),
        (onnx_bytes()[:-5], "truncated ONNX"),
        (struct.pack("<Q", 400) + b'{"w":', "truncated safetensors file: 13 of at least 408 bytes"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "model.pt").write_bytes(content)
    assert words in refusal(tmp_path / "model.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_file_of_torch(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "model.pt"
    torch.save(network().state_dict(), path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[: 900 if zipped else 200])
    assert ("truncated or damaged zip archive: 900 bytes" if zipped else "cut off") in refusal(path)


def test_truncated_safetensors(tmp_path: Path) -> None:
    save_file({"w": torch.ones(100)}, tmp_path / "m")
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes()[:-10])
    assert "truncated safetensors" in refusal(tmp_path / "m")


def test_things_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "named pipe" in refusal(tmp_path / "pipe")
    assert "character device" in refusal("/dev/zero")


def test_folders_without_a_model(tmp_path: Path) -> None:
    assert "no file of weights" in refusal(tmp_path)
    (tmp_path / "net.pt").write_bytes(b"x")
    assert "net.pt: name one of them" in refusal(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert "config.json but no weights" in refusal(tmp_path)
    (tmp_path / "model.safetensors").write_text(LFS)
    assert "Git LFS pointer" in refusal(tmp_path)


def test_a_missing_path_suggests_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "digits_vit.pt").write_bytes(b"x")
    assert f"Did you mean {tmp_path}/digits_vit.pt?" in refusal(tmp_path / "digit_vit.pt")
    assert "does not exist either" in refusal(tmp_path / "no" / "model.pt")
    assert "no such file" in refusal(f"{tmp_path}/net.py:make")


def test_python_source_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("x = 1\n")
    assert "net.py:NAME" in refusal(tmp_path / "net.py")


def test_archives_that_are_no_models(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("x"), io.BytesIO())
    np.savez(tmp_path / "a.npz", images=np.ones(3))
    assert "tar archive" in refusal(tmp_path / "a.tar")
    assert "zip archive of images.npy, not a model" in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (torch.ones(3), "a single tensor"),
        ([torch.ones(3)] * 2, "a list of 2 items"),
        ({"epoch": 3}, "a dict with the keys epoch"),
    ],
)
def test_files_of_torch_without_weights(tmp_path: Path, content: object, words: str) -> None:
    torch.save(content, tmp_path / "model.pt")
    assert words in refusal(tmp_path / "model.pt")


@pytest.mark.parametrize("place", ["top", "value", "beside weights", "legacy"])
def test_identifying_runs_nothing(tmp_path: Path, place: str) -> None:
    flag = tmp_path / "flag"
    evil = Touch(flag)
    content = {"top": evil, "value": {"x": evil}, "legacy": evil}.get(
        place, {"state_dict": network().state_dict(), "x": evil}
    )
    found = saved(tmp_path, content, _use_new_zipfile_serialization=place != "legacy")
    assert "posix.system" in found.globals
    assert found.kind == (Kind.CHECKPOINT if place == "beside weights" else Kind.MODULE_PICKLE)
    assert not flag.exists()


MARKED_TUPLES = b"\x80\x02}" + b")" + b"\x85" * 300_000 + b"K\x01s."


@pytest.mark.parametrize(
    ("pickled", "words"),
    [
        (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "nested more than 500 levels deep"),
        (MARKED_TUPLES, "no dict of weights"),  # hashing such a key natively would exhaust the stack
        (b"\x80\x02Nr\xff\xff\xff\x7f.", "holds nothing"),  # a memo index that makes the C unpickler allocate 32 GB
        (b"\x80\x04\x96" + struct.pack("<Q", 1 << 40) + b".", "more than 256 MiB"),
        (b"\x80\x02" + b"N0" * 600_000 + b"N.", "more than 1000000 instructions"),
        (b"\x80\x02K", "cut off"),
        (b"\x80\x02aaa.", "damaged"),
        (b"\x80\x02\x82\x01.", "instruction EXT1"),
        (b"\x80\x02\xff.", "damaged"),
    ],
)
def test_malformed_pickles_are_refused(tmp_path: Path, pickled: bytes, words: str) -> None:
    assert words in refusal(archive(tmp_path / "model.pt", pickled))


def test_shared_lists_do_not_explode(tmp_path: Path) -> None:
    laughs: list[Any] = ["ha"]
    for _ in range(60):
        laughs = [laughs] * 10
    found = saved(tmp_path, {"w": torch.ones(1), "laughs": laughs})
    assert found.kind == Kind.STATE_DICT


def test_a_zip_bomb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        made.writestr("model/data.pkl", pickle.dumps({}, 2))
        with made.open("model/data/0", "w") as record:
            for _ in range(256):
                record.write(bytes(1 << 20))
    assert path.stat().st_size < 2_000_000
    assert "zip bomb" in refusal(path)


def test_two_records_of_one_name_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "model.pt", pickle.dumps({}, 2), data=bytes(100))
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as made:
        made.writestr("model/data.pkl", b"N.")
    assert "records of the same name" in refusal(path)


def test_names_in_messages_cannot_move_the_cursor(tmp_path: Path) -> None:
    torch.save({"\x1b[2J": 1}, tmp_path / "model.pt")
    assert "\x1b" not in refusal(tmp_path / "model.pt")

"""Files that appear whole or not at all, and the places where none can."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gelu_deploy.artifact.staging import locked, staging
from gelu_deploy.errors import OutputError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def write(path: Path, text: str, *, overwrite: bool = True) -> list[Path]:
    with staging(path, overwrite=overwrite) as place:
        (place.folder / place.target.name).write_text(text)
        (place.folder / "a companion").write_text(text)
        return place.publish()


def holder(path: Path, code: str) -> subprocess.Popen[bytes]:
    """A process that runs ``code`` and stays until its standard input is closed."""
    code = f"""
import sys
from pathlib import Path
from gelu_deploy.artifact.staging import *
path = Path(sys.argv[1])
with {code}:
    print("ready", flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_files_appear_together_the_target_last(path: Path) -> None:
    assert write(path, "new") == [path.with_name("a companion"), path]
    assert {file.name: file.read_text() for file in path.parent.iterdir()} == {
        "model.onnx": "new",
        "a companion": "new",
    }


def test_what_is_not_published_is_gone(path: Path) -> None:
    with staging(path, overwrite=False) as place:
        (place.folder / "x").write_text("x")
        assert not path.exists()
    assert list(path.parent.iterdir()) == []
    with pytest.raises(RuntimeError, match="by the caller"), staging(path, overwrite=False):
        raise RuntimeError("by the caller")
    assert list(path.parent.iterdir()) == []


def hopeless(folder: Path) -> Iterator[tuple[Path, str]]:
    (folder / "there.onnx").write_bytes(b"")
    (folder / "folder.onnx").mkdir()
    os.mkfifo(folder / "pipe.onnx")
    yield folder / "there.onnx", "exists already"
    yield folder / "folder.onnx", "is a folder"
    yield folder / "none" / "model.onnx", "does not exist"
    yield folder / "there.onnx" / "model.onnx", "is no folder"
    yield folder / f"{'n' * 251}.onnx", "bytes long"
    yield folder / "/".join(["d" * 200] * 30), "cannot be written"
    yield folder / "pipe.onnx", "neither a file"
    yield Path("/proc/model.onnx"), "cannot be written"


def test_what_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    for path, problem in hopeless(tmp_path):
        with pytest.raises(OutputError, match=problem), staging(path, overwrite=False):
            pytest.fail(f"{path} was opened")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder.onnx", "pipe.onnx", "there.onnx"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_said_at_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"), staging(tmp_path / "x", overwrite=True):
        pytest.fail("it was opened")


def test_a_link_is_followed(path: Path) -> None:
    real = path.parent / "elsewhere" / "real"
    real.parent.mkdir()
    path.symlink_to(real)
    write(path, "old")
    assert write(path, "new")[-1] == real
    assert path.is_symlink()
    assert path.read_text() == "new"
    assert len(list(path.parent.iterdir())) == 2


def test_without_overwrite_the_first_of_two_stays(path: Path) -> None:
    with staging(path, overwrite=False) as late:
        (late.folder / path.name).write_text("late")
        write(path, "first", overwrite=False)
        with pytest.raises(OutputError, match="exists already"):
            late.publish()
    assert path.read_text() == "first"


def test_stages_of_the_dead_are_swept_and_of_the_living_kept(path: Path) -> None:
    (alive, dead) = (holder(path, "staging(path, overwrite=True)") for _ in range(2))
    dead.kill()
    dead.communicate()
    broken = path.with_name(".model.onnx.stage-killedearly")
    broken.mkdir()
    assert len(list(path.parent.iterdir())) == 3
    write(path, "new")
    (stage,) = path.parent.glob(".model.onnx.stage-*")
    assert (stage / "files").is_dir()
    alive.communicate()
    assert alive.returncode == 0
    assert not stage.exists()


def test_a_lock_is_waited_for_and_leaves_no_file(path: Path) -> None:
    process = holder(path, "locked(path)")
    release = threading.Timer(0.2, process.communicate)
    start = time.monotonic()
    release.start()
    with locked(path):
        assert time.monotonic() - start >= 0.15
        assert [file.name for file in path.parent.iterdir()] == [".model.onnx.lock"]
    release.join()
    assert process.returncode == 0
    assert list(path.parent.iterdir()) == []

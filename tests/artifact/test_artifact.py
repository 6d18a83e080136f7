"""A model on disk: whole or not at all, the same bytes twice, and no flipped bit goes unseen."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from gelu_deploy import artifact
from gelu_deploy.artifact import Case
from gelu_deploy.errors import ModelError, OutputError
from gelu_deploy.runtime import Session

X = np.arange(6, dtype=np.float32).reshape(2, 3)
EXTERNAL = 100.0
WRITER = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_artifact import write
"""


def scaled(by: float, size: int = 600) -> ir.Model:
    """y = x · w with a weight of 3 times ``size`` floats, each ``by``."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N, 3] x) => (float[N, M] y) { y = MatMul(x, w) }'
    return ir.from_onnx_text(text, initializers=[ir.tensor(np.full((3, size), by, np.float32), name="w")])


def case(by: float) -> Case:
    return Case({"x": X}, {"y": X @ np.full((3, 600), by, np.float32)})


def write(path: Path, by: float, *, threshold: float = EXTERNAL) -> list[Path]:
    with artifact.stage(path, overwrite=True) as stage:
        stage.write(scaled(by), {"by": by}, cases=[case(by)], threshold=threshold)
        return stage.publish({"worst": by})


def answers(path: Path) -> float:
    """What the model on disk multiplies by; it, its metadata and its golden data must say the same."""
    (golden,) = artifact.cases(path)
    with Session(path) as session:
        y = session(golden.inputs)["y"]
    np.testing.assert_array_equal(y, golden.outputs["y"])
    by = float(artifact.verify(path)["by"])
    assert y[0, 0] == 3 * by
    return by


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def test_an_artifact_is_the_model_and_the_files_it_names(path: Path) -> None:
    files = write(path, 2.0)
    assert (files[-1], sorted(files)) == (path, sorted(path.parent.iterdir()))
    found = artifact.verify(path)
    assert {*found["files"], "model.onnx", "model.report.json"} == {file.name for file in files}
    assert answers(path) == 2.0
    assert json.loads(path.with_name("model.report.json").read_text()) == {"worst": 2.0, "digest": found["digest"]}
    onnx.checker.check_model(str(path), full_check=True)


def test_small_weights_stay_inside(path: Path) -> None:
    assert [file.suffix for file in write(path, 2.0, threshold=1e9)] == [".npz", ".json", ".onnx"]
    assert answers(path) == 2.0


def test_the_staged_model_can_be_judged_and_amended_first(path: Path) -> None:
    with artifact.stage(path) as stage:
        staged = stage.write(scaled(2.0), {"by": 2.0}, cases=[case(2.0)], threshold=EXTERNAL)
        assert answers(staged) == 2.0
        stage.amend({"verdict": "pass", "stages": [{"name": "runtime", "max_abs": float("nan")}]})
        assert not path.exists()
        stage.publish({})
    assert artifact.verify(path)["verdict"] == "pass"
    assert artifact.verify(path)["stages"] == [{"name": "runtime", "max_abs": None}]
    assert answers(path) == 2.0


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "model.onnx", 2.0)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert str(tmp_path).encode() not in b"".join(contents(tmp_path / "a").values())


def test_a_second_write_into_the_stage_starts_anew(path: Path) -> None:
    with artifact.stage(path) as stage:
        stage.write(scaled(3.0), {"by": 3.0}, cases=[case(3.0)], threshold=EXTERNAL)
        stage.write(scaled(2.0), {"by": 2.0}, cases=[case(2.0)], threshold=EXTERNAL)
        files = stage.publish({})
    assert sorted(path.parent.iterdir()) == sorted(files)
    assert answers(path) == 2.0


def test_metadata_of_an_earlier_artifact_is_left_behind(path: Path, tmp_path: Path) -> None:
    write(path, 2.0)
    model = ir.load(path)
    model.metadata_props["author"] = "somebody"
    with artifact.stage(tmp_path / "again.onnx") as stage:
        stage.write(model, {"form": "tanh"})
        stage.publish({})
    assert set(artifact.verify(tmp_path / "again.onnx")) == {"form", "files", "digest"}
    assert ir.load(tmp_path / "again.onnx").metadata_props["author"] == "somebody"
    path.unlink()  # its weights were loaded, not referred to
    assert Session(tmp_path / "again.onnx")({"x": X})["y"][0, 0] == 6.0


@pytest.mark.parametrize("suffix", [".onnx", ".data", ".golden.npz"])
def test_any_flipped_bit_is_found_at_load(path: Path, suffix: str) -> None:
    (file,) = (file for file in write(path, 2.0) if file.name.endswith(suffix))
    whole, rng = file.read_bytes(), random.Random(0)
    for position in [rng.randrange(8 * len(whole)) for _ in range(64)]:
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        file.write_bytes(damaged)
        with pytest.raises(ModelError, match="is damaged") as caught:
            Session(path)
        assert str(file) in str(caught.value), position
    file.write_bytes(whole)
    assert answers(path) == 2.0


@pytest.mark.parametrize("suffix", [".data", ".golden.npz"])
def test_swapped_and_missing_files_are_refused(path: Path, tmp_path: Path, suffix: str) -> None:
    def own(files: list[Path]) -> Path:
        return next(file for file in files if file.name.endswith(suffix))

    mine, other = own(write(path, 2.0)), own(write(tmp_path / "other.onnx", 3.0))
    assert mine.stat().st_size == other.stat().st_size
    mine.write_bytes(other.read_bytes())
    with pytest.raises(ModelError, match=mine.name):
        Session(path)
    mine.unlink()
    with pytest.raises(ModelError, match=f"{mine.name} is missing"):
        Session(path)


def test_a_foreign_model_has_neither_metadata_nor_golden_data(path: Path) -> None:
    ir.save(scaled(2.0), path)
    assert artifact.metadata(path) == artifact.verify(path) == {}
    assert artifact.cases(path) == []


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, problem in (("pipe", "not a file"), (".", "not a file"), ("none", "does not exist")):
        with pytest.raises(ModelError, match=problem):
            artifact.verify(tmp_path / name)


@pytest.mark.parametrize("name", ["модель", "模型.v2", "🙂", 'it\'s "x"\n', "-rf", "[0]*", "n" * 240, "字" * 79])
@pytest.mark.parametrize("suffix", ["", ".onnx"])
def test_any_name_will_do(tmp_path: Path, name: str, suffix: str) -> None:
    write(tmp_path / (name + suffix), 3.0)
    assert write(tmp_path / (name + suffix), 2.0)[-1].name == name + suffix
    assert answers(tmp_path / (name + suffix)) == 2.0
    assert len(list(tmp_path.iterdir())) == 4


def test_old_hashed_files_go_unless_a_model_names_them(path: Path) -> None:
    old = write(path, 3.0)
    path.with_name("copy.onnx").write_bytes(path.read_bytes())
    theirs = path.with_name("model-of-mine.data")
    theirs.write_bytes(b"")
    new = write(path, 2.0)
    assert answers(path.with_name("copy.onnx")) == 3.0
    path.with_name("copy.onnx").unlink()
    write(path, 2.0)
    assert sorted(path.parent.iterdir()) == sorted({*new, theirs})
    assert not set(old) & {*path.parent.glob("*.data")}


def child(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER + code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_killing_leaves_the_old_artifact_or_the_new_one(path: Path) -> None:
    write(path, 1.0)
    code = """
import os, time
write(Path(sys.argv[1]), 1.0); start = time.monotonic()
write(Path(sys.argv[1]), 1.0)
usual = time.monotonic() - start
for number, writes in enumerate(sys.stdin, 1):
    (done, tell), pid = os.pipe(), os.fork()
    while pid == 0:
        write(Path(sys.argv[1]), 1.0 + number % 3)
        number += os.write(tell, b".")
    [os.read(done, 1) for _ in range(int(float(writes)))]
    time.sleep(usual * (float(writes) % 1))
    os.kill(pid, 9)
    print(os.waitpid(pid, 0)[1], flush=True)
"""
    process, rng, seen = child(code, str(path)), random.Random(0), set[float]()
    assert process.stdin
    assert process.stdout
    for _ in range(12):
        print(rng.uniform(0.2, 4), file=process.stdin, flush=True)
        assert process.stdout.readline() == "9\n"
        seen.add(answers(path))
    process.communicate()
    assert len(seen & {1.0, 2.0, 3.0}) == len(seen) > 1
    assert sorted(write(path, 9.0)) == sorted(path.parent.iterdir()), "what the killed ones left is swept"


def test_two_writers_take_turns(path: Path) -> None:
    code = """
import os
pid = os.fork()
for _ in range(20):
    write(Path(sys.argv[1]), 1.0 if pid else 2.0)
sys.exit(os.waitpid(pid, 0)[1] if pid else 0)
"""
    with child(code, str(path)) as process:
        assert process.wait() == 0
    assert answers(path) in {1.0, 2.0}
    assert len(list(path.parent.iterdir())) == 4


@pytest.mark.parametrize("threshold", [EXTERNAL, 1e9])
def test_a_full_disk_leaves_the_old_artifact(path: Path, threshold: float) -> None:
    write(path, 2.0)
    before = contents(path.parent)
    outcomes = list[bool]()
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in [0, 1, *range(100, 8500, 400)]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
        try:
            write(path, 3.0, threshold=threshold)
            outcomes.append(True)
        except OutputError:
            outcomes.append(False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        assert outcomes[-1] or contents(path.parent) == before, limit
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
    assert answers(path) == 3.0


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_the_nth_call_failing_leaves_old_or_new(path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    write(path, 2.0)
    real: Callable[..., None] = getattr(os, function)
    for nth in range(1, 30):
        count = 0

        def flaky(*arguments: object, stop: int = nth) -> None:
            nonlocal count
            count += 1
            if count == stop:
                raise OSError(errno.EIO, "Input/output error")
            real(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(os, function, flaky)
            try:
                write(path, 3.0)
            except OutputError as error:
                assert (answers(path), "Input/output error" in str(error)) == (2.0, True)  # noqa: PT017
        if count < nth:
            break
        write(path, 2.0)
    assert 3 < nth < 29
    assert len(list(path.parent.iterdir())) == 4


@pytest.mark.slow
def test_two_gigabytes_go_beside_the_model(path: Path) -> None:
    model = scaled(2.0, 180_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with artifact.stage(path) as stage:
        stage.write(model, {}, threshold=1e12)
        files = stage.publish({})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert [file.suffix for file in files] == [".data", ".json", ".onnx"]
    assert files[0].stat().st_size == 3 * 180_000_000 * 4
    assert grown < 1.5 * files[0].stat().st_size / 1024
    artifact.verify(path)

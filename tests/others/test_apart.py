"""Another runtime in its own process: its answers, its refusals, its crashes and its hangs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from gelu_deploy.errors import LimitError, ModelError, NativeCrash, SetupError
from gelu_deploy.others.apart import Answers, Job, one, run

FAKE = """
import os, subprocess, time
from pathlib import Path

def version():
    return "7.8"

class Tensor:
    def __init__(self, array):
        self.array = array
    def to_numpy(self):
        return self.array

class Model:
    def load(self, file):
        said = Path(file).read_text()
        if said == "abort":
            os.abort()
        if said == "quit":
            os._exit(0)
        if said.startswith("hang"):
            helper = subprocess.Popen(["sleep", "60"])
            Path(said.partition(" ")[2]).write_text(str(helper.pid))
            time.sleep(60)
        if said == "refuse":
            raise ValueError("\\n> no kernel for this\\nand much more")
        return self
    def input_count(self):
        return 1
    def input_name(self, place):
        return "file"
    def into_model(self):
        return self
    into_runnable = into_model
    def run(self, arrays):
        print("noise on stdout")
        return [Tensor(2 * array) for array in arrays]

onnx = Model
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def job(said: str) -> Job:
    return Job(said.encode(), ["a/b"], [{"file": X}, {"file": X + 1}])


@pytest.fixture
def _fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tract.py").write_text(FAKE)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("_fake")
def test_each_job_gets_its_answers_or_what_went_wrong() -> None:
    first, refused, aborted, left, last = run("tract", [job(w) for w in ("fine", "refuse", "abort", "quit", "fine")])
    for answers in (first, last):
        assert isinstance(answers, Answers)
        assert answers.version == "7.8"
        np.testing.assert_array_equal(answers.outputs[0]["a/b"], 2 * X)
        np.testing.assert_array_equal(answers.outputs[1]["a/b"], 2 * X + 2)
    assert isinstance(refused, ModelError)
    assert str(refused) == "tract refuses the model: no kernel for this"
    assert isinstance(aborted, NativeCrash)
    assert str(aborted).startswith("tract crashed (SIGABRT)")
    assert isinstance(left, NativeCrash)
    assert str(left) == "tract ended without an answer"


@pytest.mark.usefixtures("_fake")
def test_a_hang_ends_with_all_that_it_started(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="tract did not finish within 1 s"):
        one("tract", job(f"hang {tmp_path / 'pid'}"), seconds=1)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        if not _alive(pid):
            return
        time.sleep(0.1)
    raise AssertionError(f"process {pid} is still there")


def _alive(pid: int) -> bool:
    """Whether it runs: what is dead and only waits for its parent does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_runtime_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tract.py").write_text("raise ModuleNotFoundError(\"No module named 'tract'\")\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    expected = r"the runtime tract is not installed \(No module named 'tract'\): pip install 'gelu-deploy\[tract\]'"
    with pytest.raises(SetupError, match=expected):
        one("tract", job("fine"))


@pytest.mark.parametrize("there", [True, False])
def test_ort_web_without_node_or_its_package(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if there:
        (tmp_path / "node").write_text(
            '#!/bin/sh\nread line\necho \'{"error": "Cannot find module", "code": "MODULE_NOT_FOUND"}\'\n'
        )
        (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = "onnxruntime-web was not found. In the working directory: npm install onnxruntime-web; or set NODE_PATH"
    with pytest.raises(SetupError, match=missing if there else "node was not found. Install Node.js"):
        one("ort-web", job("fine"))

"""scripts/gpu_check: as far as a machine without a GPU can run it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_checking import check as checking
from gpu_checking import exports

from gelu_deploy import runtime

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "gpu_check"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *words], check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_a_dry_run_passes(tmp_path: Path) -> None:
    done = run("--dry-run", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["dry_run"], found["provider"]) == (True, "cpu")
    files = len(exports.NETWORKS) * len(exports.FORMS) * len(exports.DTYPES)
    assert [one["passed"] for one in found["checks"]] == [True] * (1 + files + 2)
    assert "0 failed, 0 not reached (dry run on the CPU)" in done.stdout


def test_without_a_gpu_it_fails_with_the_remedy(tmp_path: Path) -> None:
    done = run("--json", str(tmp_path / "found.json"))
    assert done.returncode == 1
    assert "FAIL  provider" in done.stdout
    assert "pip install 'gelu-deploy[gpu]'" in done.stdout
    assert len(json.loads((tmp_path / "found.json").read_text())["checks"]) == 1


def test_a_folder_without_wheels_is_named(tmp_path: Path) -> None:
    done = run("--wheels", str(tmp_path))
    assert done.returncode == 1
    assert f"{tmp_path} has no wheels in it" in done.stderr


def test_a_check_that_crashes_or_comes_too_late_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash() -> tuple[bool, str, dict[str, object]]:
        raise ValueError("of its own")

    monkeypatch.setattr(checking, "_checks", lambda *_, **__: [("one", crash), ("two", lambda: (True, "fine", {}))])
    assert checking.check(tmp_path, time.monotonic() + 60, dry=True, told=None) == 1
    assert "ValueError: of its own" in capsys.readouterr().out
    assert checking.check(tmp_path, time.monotonic() - 1, dry=True, told=None) == 1
    assert "0 passed, 0 failed, 2 not reached" in capsys.readouterr().out


def test_an_export_passes_only_where_nothing_but_sizes_is_off_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, told, more = exports.exported(tmp_path / "one.onnx", "ffn", "tanh", "float32", "cpu")
    assert passed, told
    assert "FastGelu x1" in told
    assert set(more["placement"]) == {"CPUExecutionProvider"}
    elsewhere = {"node_Shape_3": "OtherExecutionProvider", "node_MatMul_3": "OtherExecutionProvider"}
    monkeypatch.setattr(runtime.Session, "placement", lambda _: elsewhere)
    passed, told, more = exports.exported(tmp_path / "two.onnx", "ffn", "tanh", "float32", "cpu")
    assert not passed
    assert more["off"] == ["node_MatMul_3"]
    assert "off the provider: node_MatMul_3" in told

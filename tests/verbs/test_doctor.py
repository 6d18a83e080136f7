"""``doctor``: says what is there and what to do, whatever is missing."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Callable

import pytest

from gelu_deploy.errors import SetupError
from gelu_deploy.options import DoctorOptions
from gelu_deploy.results import Finding
from gelu_deploy.runtime import providers
from gelu_deploy.verbs.doctor import doctor

Pretend = Callable[[dict[str, str | None]], None]


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Pretend these versions of packages; None for a package that is not installed."""
    real = importlib.metadata.version

    def pretend(changed: dict[str, str | None]) -> None:
        def version(name: str) -> str:
            found = changed.get(name) if name in changed else real(name)
            if found is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return found

        monkeypatch.setattr(importlib.metadata, "version", version)

    return pretend


def examined() -> tuple[dict[str, Finding], str]:
    result = doctor(DoctorOptions())
    assert result["schema"] == "gelu-deploy/doctor/1"
    return {finding["name"]: finding for finding in result["findings"]}, result["verdict"]


def test_a_whole_environment_passes() -> None:
    found, verdict = examined()
    assert verdict == "pass"
    assert {"python", "onnx", "onnx-ir", "onnxsim", "numpy", "torch", "onnxscript", "telemetry", "threads"} <= set(
        found
    )
    assert found["onnx"]["found"] == importlib.metadata.version("onnx")
    assert found["provider cpu"]["found"] == "loads and runs"
    assert found["telemetry"]["found"] == "off (ORT_DISABLE_TELEMETRY=1)"
    assert found["threads"]["found"].startswith(f"{providers.available_threads()} (affinity {providers.affinity()}, ")


@pytest.mark.parametrize(
    ("version", "ok"), [("1.20.9", False), ("1.21", True), ("1.21.0rc1", True), ("2.0+local", True)]
)
def test_a_version_below_its_floor_fails_with_the_command(versions: Pretend, version: str, ok: bool) -> None:
    versions({"onnx": version})
    found, verdict = examined()
    assert found["onnx"]["ok"] is ok
    assert found["onnx"]["advice"] == ("" if ok else "pip install 'onnx>=1.21'")
    assert verdict == ("pass" if ok else "fail")


def test_an_old_torch_fails_and_a_missing_one_does_not(versions: Pretend) -> None:
    versions({"torch": "2.9.1+cpu"})
    found, verdict = examined()
    assert (found["torch"]["ok"], verdict) == (False, "fail")
    versions({"torch": None, "onnxscript": None, "safetensors": None})
    found, verdict = examined()
    assert (found["torch"]["ok"], verdict) == (True, "pass")
    assert "pip install 'gelu-deploy[torch]'" in found["torch"]["advice"]


def test_an_old_runtime_fails(versions: Pretend) -> None:
    versions({"onnxruntime": "1.27.2"})
    found, verdict = examined()
    assert (found["onnxruntime"]["advice"], verdict) == ("pip install 'onnxruntime>=1.28'", "fail")


def test_two_runtimes_that_clash_fail(versions: Pretend) -> None:
    versions({"onnxruntime-gpu": "1.32.0"})
    found, verdict = examined()
    assert found["runtime"]["found"] == "onnxruntime and onnxruntime-gpu"
    assert "pip uninstall onnxruntime onnxruntime-gpu" in found["runtime"]["advice"]
    assert verdict == "fail"


def test_a_provider_that_does_not_load_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(provider: providers.Provider) -> None:
        raise SetupError(f"no {provider.name}")

    monkeypatch.setattr(providers, "prove", refuse)
    found, verdict = examined()
    assert found["provider cpu"] == {"name": "provider cpu", "found": "does not load", "ok": False, "advice": "no cpu"}
    assert verdict == "fail"


def test_telemetry_that_was_asked_for_is_said_and_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    found, verdict = examined()
    assert "uploads usage data" in found["telemetry"]["advice"]
    assert (found["telemetry"]["ok"], verdict) == (True, "pass")


def test_it_works_where_neither_torch_nor_a_runtime_can_be_imported() -> None:
    code = """
import sys
for name in ("torch", "onnxruntime", "onnx", "onnx_ir", "onnxsim"):
    sys.modules[name] = None
import gelu_deploy
result = gelu_deploy.doctor()
print(result["verdict"], [finding["advice"] for finding in result["findings"] if not finding["ok"]])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fail ")
    assert "pip install 'gelu-deploy[cpu]'" in done.stdout

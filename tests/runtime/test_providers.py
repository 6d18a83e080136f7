"""The runtime itself: none, one or two of them; a provider that cannot be had is an error; threads within the quota."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from gelu_deploy.errors import SetupError, UsageError
from gelu_deploy.runtime import providers

GPU = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    providers._proved.cache_clear()
    yield
    providers._proved.cache_clear()


@pytest.fixture
def gpu_build(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """The installed runtime dressed as one built for CUDA, where loading CUDA works, is skipped, or fails."""

    def build(outcome: str) -> list[Any]:
        asked = list[Any]()

        def session(model: Any, options: Any, wanted: Any, **_: Any) -> Any:
            asked.append(wanted)
            if outcome == "fails":
                raise RuntimeError("CUDA failure 100: no CUDA-capable device is detected ; GPU=-1")
            real = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
            names = [name for name, _ in wanted if outcome == "works" or "CUDA" not in name]
            return SimpleNamespace(run=real.run, get_providers=lambda: names)

        names = ("SessionOptions", "GraphOptimizationLevel")
        fake = SimpleNamespace(
            **{name: getattr(onnxruntime, name) for name in names},
            InferenceSession=session,
            get_available_providers=lambda: GPU,
            preload_dlls=lambda: print("Failed to load libcudart"),
        )
        monkeypatch.setattr(providers, "onnxruntime", lambda: fake)
        return asked

    return build


@pytest.fixture
def distributions(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that these runtimes are installed."""

    def pretend(*names: str) -> None:
        def version(name: str) -> str:
            if name not in names:
                raise importlib.metadata.PackageNotFoundError(name)
            return "1.32.0"

        monkeypatch.setattr(importlib.metadata, "version", version)

    return pretend


def test_the_cpu_is_always_there() -> None:
    assert providers.choose("cpu") == providers.choose("CPUExecutionProvider") == providers.CPU
    providers.prove(providers.CPU)


def test_a_provider_that_the_build_lacks_is_an_error_with_its_remedy() -> None:
    for name in ("cuda", "CUDAExecutionProvider"):
        with pytest.raises(
            SetupError, match=r"'cuda' is not in .* CPUExecutionProvider.*pip install 'gelu-deploy\[gpu"
        ):
            providers.choose(name)
    with pytest.raises(SetupError, match="CoreMLExecutionProvider"):
        providers.choose("CoreMLExecutionProvider")


@pytest.mark.parametrize("name", ["", "gpu", "CUDA", "Cpu"])
def test_a_name_that_means_nothing_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="expected cpu, cuda, auto, or a full name"):
        providers.choose(name)


def test_auto_is_the_cpu_where_cuda_is_not() -> None:
    assert providers.choose("auto") == providers.CPU


@pytest.mark.parametrize(("outcome", "problem"), [("skipped", "does not load"), ("fails", "no CUDA-capable device")])
def test_cuda_that_does_not_load_is_an_error_and_auto_goes_on(
    gpu_build: Callable[[str], list[Any]], capfd: pytest.CaptureFixture[str], outcome: str, problem: str
) -> None:
    gpu_build(outcome)
    with pytest.raises(SetupError, match=problem):
        providers.choose("cuda")
    assert providers.choose("auto") == providers.CPU
    assert capfd.readouterr() == ("", "")


def test_cuda_that_works_is_proved_once_and_falls_back_on_the_cpu_for_single_nodes(
    gpu_build: Callable[[str], list[Any]],
) -> None:
    asked = gpu_build("works")
    assert providers.choose("auto") == providers.choose("cuda") == providers.CUDA
    assert asked == [[("CUDAExecutionProvider", {"use_tf32": "0"}), ("CPUExecutionProvider", {})]]


def test_two_runtimes_clash(distributions: Callable[..., None]) -> None:
    distributions("onnxruntime", "onnxruntime-gpu")
    with pytest.raises(SetupError, match="pip uninstall onnxruntime onnxruntime-gpu"):
        providers.onnxruntime()


def test_no_runtime_is_said_with_the_command(
    distributions: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    distributions()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SetupError, match=r"pip install 'gelu-deploy\[cpu\]'"):
        providers.onnxruntime()


def test_telemetry_is_off_before_the_runtime_is_imported() -> None:
    code = "from gelu_deploy.runtime import providers; import sys, os; assert 'onnxruntime' not in sys.modules; "
    code += "providers.onnxruntime(); print(os.environ['ORT_DISABLE_TELEMETRY'], len(os.listdir('/proc/self/task')))"
    clean = {name: value for name, value in os.environ.items() if name not in {"CI", "ORT_DISABLE_TELEMETRY"}}
    limits = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=clean | limits, capture_output=True, check=True)
    assert done.stdout == b"1 1\n", "the thread that uploads would be a second one"


def test_the_runtimes_message_in_one_line_without_its_source() -> None:
    text = """[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Reshape node. Name:''
    Status Message: /onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:91
    onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, bool) a == b was false."""
    assert providers.reason(RuntimeError(text)) == (
        "Non-zero status code returned while running Reshape node. Name:'' Status Message: a == b was false."
    )
    assert len(providers.reason(RuntimeError("x" * 9999))) < 450


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000", "cpu.max": "900000 100000"}, 2.0),
        ("4:memory:/x\n1:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ("1:cpu:/deep\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("", {}, None),
    ],
)
def test_the_quota_of_a_control_group(tmp_path: Path, own: str, files: dict[str, str], expected: float | None) -> None:
    for name, text in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(text)
    (tmp_path / "own").write_text(own)
    assert providers.quota(tmp_path / "fs", tmp_path / "own") == expected


def test_threads_stay_within_affinity_and_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    assert providers.quota(own=Path("/none")) is None
    monkeypatch.setattr(providers, "affinity", lambda: 8)
    for quota, expected in ((None, 8), (2.9, 2), (0.5, 1), (64.0, 8)):
        monkeypatch.setattr(providers, "quota", lambda quota=quota: quota)
        assert providers.available_threads() == expected

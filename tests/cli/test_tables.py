"""Results as a person reads them, at 60 and 80 columns."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from gelu_deploy.cli import tables
from gelu_deploy.results import (
    CheckResult,
    DoctorResult,
    ExportResult,
    InspectResult,
    NearMiss,
    RunResult,
    SiteResult,
    Stage,
)


def site(module: str, form: str = "tanh", kernels: tuple[str, ...] = ("Gelu",), **more: Any) -> SiteResult:
    made = {
        "form": form,
        "spelling": "gelu",
        "input": "x",
        "output": "y",
        "module": module,
        "error": 1.25e-7,
        "kernels": list(kernels),
        "reason": "",
        "found": {"form": form, "spelling": "ops"},
        "written": {"form": form, "spelling": "gelu"},
    }
    return SiteResult(**{**made, **more})  # type: ignore[typeddict-item]


SITES = [
    site("encoder.layer.0.intermediate.intermediate_act_fn"),
    site("encoder.layer.1.intermediate.intermediate_act_fn", found={"form": "erf", "spelling": "contrib"}),
    site(
        "gate",
        "sigmoid",
        found={"form": "tanh", "spelling": "ops"},
        written={"form": "sigmoid", "spelling": "ops", "alpha": 1.702},
        error=0.0,
    ),
    site("", kernels=("Div", "Erf", "Add", "Mul", "Mul"), reason="a graph output stays open below opset 20"),
]
MISS: NearMiss = {
    "output": "silu_1",
    "input": "x",
    "module": "blocks.0.[gate]",
    "form": "sigmoid",
    "error": 0.0213,
    "reason": "x·sigmoid(αx) with α = 1 is SiLU",
}
STAGES: list[Stage] = [
    {"name": "export", "max_abs": 2.4e-7, "max_rel": 1.1e-6, "ratio": 0.012, "worst": "logits", "passed": True},
    {"name": "simplify", "max_abs": 0.0, "max_rel": float("nan"), "ratio": 0.0001, "worst": "", "passed": True},
    {"name": "runtime", "max_abs": 4.7e-4, "max_rel": 1.1, "ratio": 23.5, "worst": "encoder.layer.1", "passed": False},
]
EXPORT: ExportResult = {
    "schema": "gelu-deploy/export/1",
    "source": "models/digits_vit.pt",
    "notes": ["weights only (state_dict), 54 tensors", "inputs from models/digits_test.npz; labels is no input"],
    "exporter": "dynamo",
    "opset": 20,
    "provider": "CPUExecutionProvider",
    "inputs": {"x": "batchx1x8x8:float32", "mask": "batchx16:bool"},
    "outputs": {"logits": "batchx10:float32"},
    "cases": [{"x": f"{size}x1x8x8:float32"} for size in range(1, 7)],
    "sites": SITES,
    "near_misses": [MISS],
    "stages": STAGES,
    "verdict": "fail",
    "reason": "runtime broke it",
    "files": [],
    "seconds": {"load": 1.23, "rewrite": 0.01, "export": 8.1},
}
INSPECT: InspectResult = {
    "schema": "gelu-deploy/inspect/1",
    "model": "a.onnx",
    "opset": 17,
    "provider": "CPUExecutionProvider",
    "sites": SITES[:1],
    "near_misses": [],
    "notes": ["not written by gelu-deploy"],
}
CHECK: CheckResult = {
    "schema": "gelu-deploy/check/1",
    "model": "a.onnx",
    "provider": "CPUExecutionProvider",
    "notes": [],
    "sites": [],
    "stages": STAGES[:1],
    "verdict": "pass",
    "reason": "",
}
RUN: RunResult = {
    "schema": "gelu-deploy/run/1",
    "model": "a.onnx",
    "provider": "CPUExecutionProvider",
    "outputs": [
        {"name": "logits", "shape": [2, 10], "dtype": "float32", "minimum": -12.3456789, "maximum": 7.5},
        {"name": "loss", "shape": [], "dtype": "float32", "minimum": 0.25, "maximum": 0.25},
    ],
    "files": ["y.npz"],
    "seconds": 0.0123,
}
DOCTOR: DoctorResult = {
    "schema": "gelu-deploy/doctor/1",
    "findings": [
        {"name": "python", "found": "3.11.7", "ok": True, "advice": ""},
        {
            "name": "runtime",
            "found": "onnxruntime 1.32.0 and onnxruntime-gpu 1.32.0",
            "ok": False,
            "advice": "Two runtimes clash. Keep one: pip uninstall onnxruntime onnxruntime-gpu, then install the one.",
        },
    ],
    "verdict": "fail",
}
RESULTS: dict[str, Mapping[str, Any]] = {
    "export": EXPORT,
    "inspect": INSPECT,
    "check": CHECK,
    "run": RUN,
    "doctor": DOCTOR,
}


def text(result: Mapping[str, Any], columns: int) -> str:
    page = io.StringIO()
    console = Console(file=page, width=columns, highlight=False)
    for part in tables.render(result):
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "result", [EXPORT, INSPECT, CHECK, RUN, DOCTOR], ids=lambda result: result["schema"].split("/")[1]
)
def test_golden(result: Mapping[str, Any], columns: int, golden: Any) -> None:
    shown = text(result, columns)
    assert max(map(len, shown.splitlines())) <= columns
    golden(f"{result['schema'].split('/')[1]}_{columns}.txt", shown)


def test_nothing_is_cut_off_in_a_narrow_terminal() -> None:
    squeezed = "".join(text(EXPORT, 40).split())
    assert "encoder" in squeezed
    assert "…" not in squeezed


def test_the_verdict_and_the_files_are_the_last_line() -> None:
    passed = {**EXPORT, "verdict": "pass", "reason": "", "files": ["m.onnx", "m.bin"]}
    assert text(passed, 80).splitlines()[-1] == "pass: wrote m.onnx, m.bin"
    assert text(EXPORT, 80).splitlines()[-1] == "FAIL: runtime broke it; nothing written"


def test_many_sites_are_grouped_and_the_odd_one_stands_out() -> None:
    many = [site(f"encoder.layer.{i}.act", error=i * 1e-7) for i in range(24)]
    odd = site("encoder.layer.24.act", kernels=("Erf", "Mul"))
    lines = text({**INSPECT, "sites": [*many, odd]}, 80).splitlines()
    shown = [line.split("  ")[0] for line in lines if line.startswith("encoder")]
    assert shown == ["encoder.layer.*.act ×24", "encoder.layer.24.act"]
    assert any(line.startswith("encoder.layer.*.act ×24") and line.endswith("2.3e-6") for line in lines)
    assert lines[-1] == "25 GELU sites, 24 of them one kernel"
    assert text({**INSPECT, "sites": many}, 80).count("encoder.layer.") == 24


def test_a_reason_that_several_sites_share_is_told_once() -> None:
    shared = [site(f"blocks.{i}.act", reason="a graph output") for i in range(3)]
    shown = text({**INSPECT, "sites": [*shared, site("head.0", reason="no kernel")]}, 80)
    assert "blocks.*.act  a graph output\n" in shown
    assert "head.0        no kernel\n" in shown


def test_a_model_without_gelu_says_so() -> None:
    assert "0 GELU sites" in text({**INSPECT, "sites": []}, 80)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (1.25e-7, "1.2e-7"), (0.125, "0.125"), (99.6, "99.6"), (1234.0, "1.2e+3"), (float("nan"), "-")],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    stage: Stage = {"name": "s", "max_abs": value, "max_rel": 0, "ratio": 0, "worst": "", "passed": True}
    (line,) = [line for line in text({**CHECK, "stages": [stage]}, 80).splitlines() if line.startswith("s ")]
    assert line.split()[1] == shown

"""A quantized model as a person reads it."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from gelu_deploy.cli import tables
from gelu_deploy.results import LayerResult, LobeResult, QuantizeResult, SensitivityResult


def layer(module: str, **more: Any) -> LayerResult:
    made = LayerResult(
        module=module,
        node=f"node.{module}",
        op="Gemm",
        kernels=["QGemm"],
        integer=True,
        macs=2048,
        sqnr_alone=41.46,
        sqnr=35.04,
        cut_off=0.0278,
        reason="",
    )
    return LayerResult(**{**made, **more})  # type: ignore[typeddict-item]


FLOAT = {"kernels": ["Gemm"], "integer": False, "sqnr_alone": math.nan, "sqnr": math.nan, "reason": "left in float"}
PRODUCT = {**FLOAT, "op": "MatMul", "kernels": ["MatMul"], "reason": "a product of two activations, which stays float"}
LAYERS = [
    layer("patches", op="Conv", kernels=["QLinearConv"]),
    layer("encoder.layer.0.intermediate.dense"),
    layer("encoder.layer.0.output.dense", kernels=["DequantizeLinear", "Gemm"], integer=False, reason="fell back"),
    layer("encoder.layer.0.attention", **PRODUCT),
    layer("head", **FLOAT),
]
RESULT: QuantizeResult = {
    "schema": "gelu-deploy/quantize/1",
    "source": "digits.onnx",
    "precision": "int8",
    "target_cpu": "avx2",
    "calibration": {
        "data": "digits_test.npz",
        "method": "mse",
        "held-out SQNR with minmax": "41.38 dB",
        "held-out SQNR with mse": "41.82 dB",
    },
    "layers": LAYERS,
    "lobes": [
        LobeResult(module="encoder.layer.0.output.dense", codes_below_zero=15, sqnr=32.44),
        LobeResult(module="encoder.layer.1.output.dense", codes_below_zero=0, sqnr=0.0),
    ],
    "integer_share": 0.9483,
    "operators": ["QuantizeLinear", "QGemm"],
    "causes": ["8 products, 5.2% of the multiplications, left in float", "1 float island between integer operators"],
    "sqnr": 41.84,
    "agreement": 0.9975,
    "sensitivity": [
        SensitivityResult(module="encoder.layer.0.norm", node="square", kl=math.inf, agreement=0.0),
        SensitivityResult(module="", node="fc1", kl=1.25e-5, agreement=1.0),
    ],
    "accuracy": {"rows": 450, "before": 0.98667, "after": 0.98444, "lost": 2, "gained": 1, "p": 1.0},
    "bytes": {"before": 497_123, "after": 99_612},
    "runtime": {
        "settings": "without SkipLayerNormFusion, no spinning",
        "milliseconds": "0.8 instead of 1.1",
        "tried no spinning": "0.950 (0.940 to 0.970)",
    },
    "notes": ["16 MatMul with Add written as Gemm", "bias correction of 18 layers: 41.82 dB became 41.85"],
    "verdict": "pass",
    "reason": "",
    "files": ["int8.report.json", "int8.onnx"],
    "seconds": {"read": 2.8, "calibrate": 0.01, "compare": 4.0},
}


def text(columns: int, **other: Any) -> str:
    page = io.StringIO()
    console = Console(file=page, width=columns, highlight=False)
    for part in tables.render({**RESULT, **other}):
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


@pytest.mark.parametrize("columns", [60, 80])
def test_golden(columns: int, golden: Any) -> None:
    shown = text(columns)
    assert max(map(len, shown.splitlines())) <= columns
    golden(f"quantize_{columns}.txt", shown)


def test_nothing_is_cut_off_in_a_narrow_terminal() -> None:
    squeezed = "".join(text(40).split())
    assert "intermediate" in squeezed
    assert "…" not in squeezed


def test_the_verdict_is_the_last_line() -> None:
    assert text(80).splitlines()[-1] == "pass: wrote int8.report.json, int8.onnx"
    assert text(80, files=[]).splitlines()[-1] == "pass: nothing written, as --dry-run says"
    failed = text(80, verdict="fail", reason="not one layer runs in integers", files=[])
    assert failed.splitlines()[-1] == "FAIL: not one layer runs in integers; nothing written"


def test_what_was_not_measured_is_not_shown() -> None:
    shown = text(80, calibration={}, lobes=[], sensitivity=[], accuracy=None, causes=[], runtime={}, seconds={})
    for absent in ("calibration", "reads a GELU", "worst first", "labelled", "slow", "runtime", "seconds"):
        assert absent not in shown
    assert ", 99.75% of the answers the same" in shown
    assert "answers" not in text(80, agreement=math.nan, sensitivity=[])


def test_many_layers_of_one_kind_are_one_row_with_the_lowest_decibels() -> None:
    many = [layer(f"blocks.{i}.up", sqnr_alone=40.0 + i, sqnr=30.0 - i) for i in range(24)]
    odd = layer("blocks.24.up", **FLOAT)
    lines = text(80, layers=[*many, odd]).splitlines()
    (row,) = [line.split() for line in lines if line.startswith("blocks.*.up")]
    assert row == ["blocks.*.up", "×24", "Gemm", "QGemm", "40.0", "7.0"]
    assert [line.split() for line in lines if line.startswith("blocks.24.up")] == [
        ["blocks.24.up", "Gemm", "Gemm", "-", "-"],
        ["blocks.24.up", "left", "in", "float"],
    ]
    assert text(80, layers=many).count("blocks.") == 24


def test_the_ranking_and_the_lobes_show_the_worst() -> None:
    ranked = [SensitivityResult(module=f"m{i}", node="n", kl=1.0 / (i + 1), agreement=0.5) for i in range(30)]
    shown = text(80, sensitivity=ranked)
    assert "m9 " in shown
    assert "m10 " not in shown
    lobes = [LobeResult(module=f"l{i}", codes_below_zero=9, sqnr=float(i)) for i in range(40)]
    assert [line.split()[0] for line in text(80, lobes=lobes[::-1]).splitlines() if line.startswith("l")][:3] == [
        "layer",
        "l0",
        "l1",
    ]


@pytest.mark.parametrize(("count", "shown"), [(17_234, "17.2 kB"), (99_999, "100.0 kB"), (497_123, "0.5 MB"), (0, "-")])
def test_sizes(count: int, shown: str) -> None:
    assert f"{shown} -> 0.1 MB" in text(80, bytes={"before": count, "after": 104_000})

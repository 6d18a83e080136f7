"""What ``compare`` refuses: at once, in words, and leaving nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from quantize_networks import ffn

import gelu_deploy
from gelu_deploy.errors import ModelError, OutputError, UsageError
from gelu_deploy.results import CompareResult
from gelu_deploy.verbs import variants

Compare = Callable[..., CompareResult]


@pytest.fixture
def compare(small: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """The verb on ``m.onnx`` and ``d.npz`` of that folder, which is the working directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(small / "cache"))
    monkeypatch.chdir(small)

    def call(model: object = "m.onnx", **options: Any) -> CompareResult:
        return gelu_deploy.compare(model, **{"data": "d.npz", **options})

    return call


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 0.4}, "--confidence 0.4: expected a share between 0.5 and 1"),
        ({"time_budget": 0.0}, "--time-budget 0: expected seconds"),
        ({"form": "gauss"}, "--form gauss: there is no such form; there are erf"),
        ({"precision": "int3"}, "--precision int3: there is no such precision; there are int8"),
        ({"twin_arch_arg": "a=1"}, "--twin-arch and --twin-arch-arg say how a twin is built"),
        ({"data": "no.npz"}, "--data no.npz: there is no such file or folder"),
        ({"data": "no.py:batches"}, "--data no.py:batches: there is no such file or folder"),
        ({"calib_data": "no.npz"}, "--calib-data no.npz: there is no such file or folder"),
        ({"max_size": "large"}, "--max-size large: expected a size"),
        ({"metric": "bleu"}, "no metric 'bleu'"),
        ({"arch": "a.py:b"}, "--arch mean something for PyTorch models only"),
        ({"target_cpu": "z80"}, "Option 'target_cpu' got 'z80'"),
        ({"also": ["m.onnx", "./m.onnx"]}, "--also: the same file was given twice"),
        ({"max_drop": "0%"}, "--max-drop 0%: no number of rows"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_any_work(
    compare: Compare, small: Path, options: dict[str, Any], message: str
) -> None:
    before = files(small)
    with pytest.raises(UsageError) as error:
        compare(**options)
    assert str(error.value).startswith(message)
    assert files(small) == before


def test_files_that_cannot_be_compared_are_refused(compare: Compare, small: Path) -> None:
    gelu_deploy.quantize("m.onnx", calib_data="d.npz", output="int8.onnx", tune=False, correct_bias=False)
    with pytest.raises(ModelError, match=r"int8\.onnx is quantized already: it has DequantizeLinear.*with --also"):
        compare("int8.onnx")
    with pytest.raises(ModelError, match=r"int8\.onnx is quantized already"):
        compare(twin="int8.onnx")
    with pytest.raises(ModelError, match="no such file"):
        compare(also="no.onnx")
    ir.save(ffn(width=16, hidden=64).whole(), small / "narrow.onnx")
    with pytest.raises(UsageError, match=r"narrow\.onnx takes x n x 16:float32.*the model takes x n x 32"):
        compare(twin="narrow.onnx")
    fixed = ffn(width=32, hidden=64).whole()
    fixed.graph.inputs[0].shape = ir.Shape((1, 32))
    ir.save(fixed, small / "fixed.onnx")
    with pytest.raises(UsageError, match=r"fixed\.onnx takes batches of 1 and no others: add --batch 1"):
        compare(also="fixed.onnx")
    (small / "m.compare").mkdir()
    (small / "m.compare" / "own.txt").touch()
    with pytest.raises(OutputError, match=r"m\.compare is not empty"):
        compare()
    assert files(small / "m.compare") == ["own.txt"]


def test_labels_that_cannot_be_scored_are_found_before_anything_is_quantized(
    compare: Compare, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variants, "quantize", lambda *_: pytest.fail("it was quantized"))
    with np.load(small / "d.npz") as held:
        np.savez(small / "d.npz", x=held["x"], labels=held["labels"] + 100)
    with pytest.raises(UsageError, match=r"label 1\d\d came, but the first output has the classes 0 to 31"):
        compare()
    with pytest.raises(UsageError, match=r"--metric cer needs labels and plain\.npz has none"):
        compare(data="plain.npz", metric="cer")
    assert "m.compare" not in files(small)


def test_an_export_that_computes_something_else_is_no_variant(
    compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {"verdict": "fail", "reason": "rewrite broke parity", "source": "m", "notes": []}
    monkeypatch.setattr(variants, "export", lambda *_: failed)
    with pytest.raises(ModelError, match=r"float tanh: the export computes something else.*rewrite broke parity"):
        compare(form="tanh")

"""Two small float models that ``quantize`` is tried on, and the verb on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from quantize_networks import Builder, ffn

import gelu_deploy
from gelu_deploy import runtime
from gelu_deploy.arrays import Array
from gelu_deploy.results import QuantizeResult

Quantize = Callable[..., QuantizeResult]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """``m.onnx``, fc1 -> act -> fc2, and ``d.npz`` with labels, of which float gets nine in ten."""
    made = ffn(width=32, hidden=64)
    ir.save(made.whole(), tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(64, 32)).astype(np.float32)
    _data(tmp_path, x, _classes(tmp_path / "m.onnx", x))
    return tmp_path


@pytest.fixture
def hurt(tmp_path: Path) -> Path:
    """The same with a wide input channel that says nothing: 8 bits for it leave fc1 with noise, fc2 does not mind."""
    make = Builder()
    x = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    w = make.random.normal(size=(32, 64)) / 5
    w[0] = 0
    fc1 = make.op("fc1", "Gemm", x, make.weight("fc1.weight", w), make.normal("fc1.bias", 64, scale=0.1))
    ir.save(make.model([x], make.linear("fc2", make.op("act", "Gelu", fc1), 64, 10)), tmp_path / "m.onnx")
    array = np.random.default_rng(1).normal(size=(128, 32)).astype(np.float32)
    array[:, 0] *= 1000
    _data(tmp_path, array, _classes(tmp_path / "m.onnx", array))
    return tmp_path


@pytest.fixture
def quantize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quantize:
    """The verb on ``m.onnx`` and ``d.npz`` of that folder, ``o.onnx`` being the output, without tuning."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(**options: Any) -> QuantizeResult:
        usual = {"calib_data": tmp_path / "d.npz", "output": tmp_path / "o.onnx", "tune": False}
        asked = {name: value for name, value in {**usual, **options}.items() if value is not None}
        return gelu_deploy.quantize(tmp_path / "m.onnx", **asked)

    return call


def _data(folder: Path, x: Array, classes: Array) -> None:
    labels = classes.copy()
    labels[::10] += 1
    np.savez(folder / "d.npz", x=x, labels=labels)
    np.savez(folder / "plain.npz", x=x)


def _classes(path: Path, x: Array) -> Array:
    classes: Array = next(iter(runtime.evaluate(path, {"x": x}, optimise=False).values())).argmax(-1)
    return classes

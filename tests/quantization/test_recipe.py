"""The whole recipe, from file to file, against what it is for: the fixture's decibels, a real model's answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import quantize_networks as networks
import real_data
import real_models

import gelu_deploy
from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.scoring import metrics

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(("outliers", "decibels"), [(0, 34.0), (32, 28.0)])
def test_the_feed_forward_fixture(tmp_path: Path, outliers: int, decibels: float) -> None:
    ir.save(networks.ffn(outliers=outliers).whole(), tmp_path / "ffn.onnx")
    rows = np.random.default_rng(1).normal(size=(640, 768)).astype(np.float32)
    write_npz(tmp_path / "rows.npz", {"x": rows[:512]})
    out = str(tmp_path / "out.onnx")
    result = gelu_deploy.quantize(
        str(tmp_path / "ffn.onnx"), calib_data=str(tmp_path / "rows.npz"), batch=128, output=out, tune=False
    )
    assert result["verdict"] == "pass"
    want, got = (gelu_deploy.Session(path)({"x": rows[512:]})["y"] for path in (str(tmp_path / "ffn.onnx"), out))
    assert metrics.sqnr(want, got) >= decibels
    if not outliers:
        assert result["operators"] == ["QuantizeLinear", "QGemm", "Gelu", "QuantizeLinear", "QGemm"]


def test_magika_keeps_its_answers(tmp_path: Path) -> None:
    features, truth = real_data.labelled_files(288)
    others = np.arange(288) % 3 == 0
    path = real_models.magika()
    name = next(iter(gelu_deploy.Session(path).inputs))
    write_npz(tmp_path / "files.npz", {name: features[others]})
    out = str(tmp_path / "out.onnx")
    result = gelu_deploy.quantize(str(path), calib_data=str(tmp_path / "files.npz"), output=out, tune=False)
    assert result["integer_share"] >= 0.95
    want, got = (
        np.concatenate([next(iter(session({name: rows}).values())) for rows in np.split(features[~others], 6)])
        for session in (gelu_deploy.Session(path), gelu_deploy.Session(out))
    )
    assert metrics.agreement(want, got) >= 0.97
    assert metrics.kl(want, got) < 0.01
    assert metrics.McNemar.of(want, got, truth[~others]).p > 0.05

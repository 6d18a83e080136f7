"""Sessions opened from what JSON has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from gelu_deploy.runtime.opener import renamed, session
from gelu_deploy.runtime.settings import Settings
from gelu_deploy.timing.interleaved import Variant

SETTINGS = Settings(("SkipLayerNormFusion",), threads=1, spinning=False, cores=2)
X = np.array([1, -2], np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    text = '<ir_version: 9, opset_import: ["": 20]> g (float[n] x) => (float[n] y) { y = Add(x, x) }'
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return path


def test_a_session_is_opened_with_the_settings_that_are_said(model: Path) -> None:
    arguments = json.loads(json.dumps(dict(Variant.session("it", model, SETTINGS).arguments)))
    with session(**arguments) as opened:
        assert (opened.settings, opened.provider) == (SETTINGS, "cpu")
        assert opened({"x": X})["y"].tolist() == [2, -4]


def test_inputs_may_come_under_other_names(model: Path) -> None:
    run = renamed({"input": "x"}, **Variant.session("it", model).arguments)
    assert run({"input": X})["y"].tolist() == [2, -4]

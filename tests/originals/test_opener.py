"""A PyTorch network as a variant beside the ONNX file that was made of it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest
import torch

import gelu_deploy
from gelu_deploy.errors import UsageError
from gelu_deploy.options import CompareOptions, SourceOptions
from gelu_deploy.originals.opener import pytorch, variant
from gelu_deploy.runtime.providers import available_threads
from gelu_deploy.timing.interleaved import Variant, timed


def test_the_original_answers_as_its_export_does(root: Path, tmp_path: Path) -> None:
    model, data, arch = root / "models/digits_vit.pt", root / "models/digits_test.npz", root / "models/digits_vit.py"
    made = {"exporter": "torchscript", "simplify": False, "verify": False}  # the quickest way
    gelu_deploy.export(model, arch=f"{arch}:digits_vit", output=tmp_path / "m.onnx", **made)
    with np.load(data) as held:
        feeds = {"x": held["x"][:3]}
    options = CompareOptions(arch=f"{arch}:digits_vit", data=str(data), max_drop="1%")
    variants = [variant("PyTorch", str(model), options), Variant.session("float", tmp_path / "m.onnx")]
    original, exported = timed(variants, feeds, rounds=2, runs=3)
    (wanted,), (found,) = original.answers.values(), exported.answers.values()
    assert wanted.shape == (3, 10)
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert min(original.milliseconds) > 0
    assert original.memory_before > exported.memory_before + 50e6  # torch itself
    assert original.memory - original.memory_before < 100e6


@pytest.fixture
def threads() -> Generator[None]:
    """torch has as many afterwards as before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_options_come_as_json_has_them(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, width):\n"
        "        super().__init__()\n"
        "        self.fc = torch.nn.Linear(width, 2)\n"
        "    def forward(self, x):\n"
        "        return {'mode': torch.tensor(torch.is_inference_mode_enabled()), 'y': self.fc(x)}\n"
    )
    options = SourceOptions(arch_arg=("width=3",), input=("x:2x3:float32",))
    torch.set_num_threads(available_threads() + 1)
    run = pytorch(f"{tmp_path / 'net.py'}:Net", json.loads(json.dumps(dataclasses.asdict(options))))
    found = run({"x": np.zeros((5, 3), np.float32)})
    assert found["mode"].item() is True
    assert found["y"].shape == (5, 2)
    assert torch.get_num_threads() == available_threads()


def test_a_source_that_cannot_be_opened_says_why(root: Path) -> None:
    with pytest.raises(UsageError, match=r"weights without a network.*--arch"):
        pytorch(str(root / "models/digits_vit_bare.pt"), {})


def test_naming_it_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from gelu_deploy.options import SourceOptions\n"
        "from gelu_deploy.originals.opener import variant\n"
        "print(variant('it', 'm.pt', SourceOptions()).arguments['model'], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["m.pt", "False"]


def test_every_option_goes_along() -> None:
    options = SourceOptions(arch="a.py:b", strict=False, trust_code=True, dtype="float16")
    assert variant("it", "m.pt", options).arguments["options"] == dataclasses.asdict(options)

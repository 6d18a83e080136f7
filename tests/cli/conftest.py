"""A folder with everything that a newcomer might name, and somebody who types commands there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import gelu_deploy
from gelu_deploy.cli import main

NETS = '''
import os, signal, torch
from torch import nn

number = 5

class Net(nn.Module):
    """One GELU; what the others below return or do differs."""

    def __init__(self, depth=1):
        super().__init__()
        self.dense = nn.Linear(8, 4 * int(depth))

    def forward(self, x):
        return nn.functional.gelu(self.dense(x))

class Two(Net):
    def forward(self, x, y, *, scale=None):
        return super().forward(x) + y

class Any(Net):
    def forward(self, *given):
        return super().forward(given[0])

class Nothing(Net):
    def forward(self, x):
        super().forward(x)

class NotANumber(Net):
    def forward(self, x):
        return super().forward(x) * float("nan")

class Named(Net):
    def forward(self, x):
        hidden = super().forward(x)
        return {"x": hidden + 1, "linear": hidden.mean(-1), "mean": hidden * 2}

class Branches(Net):
    def forward(self, x):
        hidden = super().forward(x)
        return hidden * 2 if hidden.sum() > 0 else hidden

class Interrupted(Net):
    def forward(self, x):
        signal.raise_signal(getattr(signal, os.environ["NEWCOMER_SIGNAL"]))

def interrupting():
    yield torch.ones(2, 8).numpy()
    signal.raise_signal(getattr(signal, os.environ["NEWCOMER_SIGNAL"]))

def boom():
    raise RuntimeError("the disk is on fire")

def not_a_network():
    return 3

def interrupted(module, inputs, request):
    signal.raise_signal(getattr(signal, os.environ["NEWCOMER_SIGNAL"]))

def example_inputs():
    return {"x": torch.randn(2, 8)}
'''
BARE = NETS.partition("def example_inputs")[0]
WITH_SITES = 'g (float[N] x) => (float[N] y) { a = Gelu(x) b = Gelu<approximate="tanh">(a) y = Gelu(b) }'
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n"


def _save_onnx(path: Path, text: str) -> None:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> {text}'), path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that a newcomer might name."""
    import torch

    here = tmp_path_factory.mktemp("newcomer")
    (here / "nets.py").write_text(NETS)
    (here / "bare.py").write_text(BARE)
    (here / "folder").mkdir()
    for name, text in {"empty": "", "text": "hello\n", "page": "<!DOCTYPE html><html>", "lfs": LFS}.items():
        (here / f"{name}.onnx").write_text(text)
    (here / "random.onnx").write_bytes(bytes(range(128, 256)) * 8)
    network = torch.nn.ModuleDict({"dense": torch.nn.Linear(8, 4)})
    torch.save(network.state_dict(), here / "weights.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and says so at every call
        torch.jit.save(torch.jit.trace(network["dense"], torch.zeros(2, 8)), str(here / "script.pt"))  # type: ignore[no-untyped-call]
    x = np.ones((2, 8), np.float32)
    np.savez(here / "x.npz", x=x)
    np.savez(here / "y.npz", y=x)
    np.savez(here / "wide.npz", x=np.ones((2, 9), np.float32))
    np.savez(here / "double.npz", x=x.astype(np.float64))
    np.savez(here / "nan.npz", x=x * np.nan)
    np.savez(here / "objects.npz", x=np.array([{}], dtype=object))
    np.save(here / "x.npy", x)
    _save_onnx(here / "foreign.onnx", WITH_SITES)
    _save_onnx(here / "strings.onnx", "g (string[N] x) => (string[N] y) { y = Identity(x) }")
    gelu_deploy.export(here / "nets.py:Net", output=here / "done.onnx")
    gelu_deploy.quantize(here / "done.onnx", precision="w8", output=here / "int8.onnx", tune=False)
    whole = (here / "done.onnx").read_bytes()
    (here / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (here / "flipped.onnx").write_bytes(whole[:400] + bytes([whole[400] ^ 1]) + whole[401:])
    return here


@pytest.fixture
def typed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Types a command in that folder: exit code, stdout, stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*words: str) -> tuple[int, str, str]:
        code = main([*words])
        return (code, *capfd.readouterr())

    return run

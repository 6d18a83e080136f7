"""A small network in a file, and weights for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

ARCH = """
import torch
from beside_loading import WIDTH

class Net(torch.nn.Module):
    def __init__(self, width=WIDTH, extra=False):
        super().__init__()
        self.fc = torch.nn.Linear(4, width)
        self.extra = torch.nn.Linear(1, 1) if extra else None
        self.register_buffer("shift", torch.zeros(width), persistent=False)

    def forward(self, x, scale=None):
        y = torch.nn.functional.gelu(self.fc(x)) + self.shift
        return y if scale is None else y * scale

def make(**given):
    return Net(**given)

def broken():
    raise RuntimeError("no such luck")

ready = Net()
"""
OFFER = "\ndef example_inputs():\n    return {'x': torch.ones(2, 4)}\n"


@pytest.fixture
def arch(tmp_path: Path) -> str:
    """A file that builds a network, imports a neighbour and offers example inputs."""
    (tmp_path / "beside_loading.py").write_text("WIDTH = 3")
    (tmp_path / "net.py").write_text(ARCH + OFFER)
    (tmp_path / "bare.py").write_text(ARCH)
    return f"{tmp_path}/net.py:Net"


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    return {"fc.weight": torch.arange(12.0).reshape(3, 4), "fc.bias": torch.ones(3)}

"""Self-attention whose scores pass through the activation in place of softmax: tokens [N, T, width] to the same.

The activation follows a scaled MatMul, not a Linear; its output is normalised to an absolute sum of at most one.
It knows nothing of training or export.
"""

from __future__ import annotations

import torch
from activations import make
from torch import Tensor, nn


class GeluAttention(nn.Module):
    """Single-head attention with weights act(q·kᵀ/√width), divided by their absolute sum over the keys."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.scale = width**-0.5
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.act = make(activation)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, width] to [N, T, width]."""
        scores = self.act((self.query(x) @ self.key(x).transpose(1, 2)) * self.scale)
        weights = scores / (scores.abs().sum(dim=-1, keepdim=True) + 1e-3)
        mixed: Tensor = self.out(weights @ self.value(x))
        return mixed


def attention_gelu(activation: str = "gelu", *, width: int = 64, seed: int = 0) -> nn.Module:
    """The layer with float32 weights fixed by seed: [N, T, width] to [N, T, width]."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return GeluAttention(width, activation)


def example_inputs() -> dict[str, Tensor]:
    """Two sequences of 16 tokens, float32 [2, 16, 64]."""
    return {"x": torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(0))}

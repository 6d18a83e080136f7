"""A transformer's feed-forward block: x + down(act(up(norm(x)))) over tokens [N, T, width].

It knows nothing of attention, training or export.
"""

from __future__ import annotations

import torch
from activations import make
from torch import Tensor, nn


class FeedForward(nn.Module):
    """Pre-LayerNorm feed-forward block with its residual connection."""

    def __init__(self, width: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.act = make(activation)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, width] to [N, T, width]."""
        change: Tensor = self.down(self.act(self.up(self.norm(x))))
        return x + change


def ffn(activation: str = "gelu", *, width: int = 64, hidden: int = 256, seed: int = 0) -> nn.Module:
    """The block with float32 weights fixed by seed: [N, T, width] to [N, T, width]."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return FeedForward(width, hidden, activation)


def example_inputs() -> dict[str, Tensor]:
    """Two sequences of 16 tokens, float32 [2, 16, 64]."""
    return {"x": torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(0))}

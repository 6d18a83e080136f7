"""A gated feed-forward block: x + down(value · act(gate)) over tokens [N, T, width] (Shazeer, arXiv:2002.05202).

Value and gate are the halves of one projection. It knows nothing of training or export.
"""

from __future__ import annotations

import torch
from activations import make
from torch import Tensor, nn


class GeGlu(nn.Module):
    """Pre-LayerNorm gated block with its residual connection."""

    def __init__(self, width: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * hidden)
        self.act = make(activation)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, width] to [N, T, width]."""
        value, gate = self.up(self.norm(x)).chunk(2, dim=-1)
        change: Tensor = self.down(value * self.act(gate))
        return x + change


def geglu(activation: str = "gelu", *, width: int = 64, hidden: int = 128, seed: int = 0) -> nn.Module:
    """The block with float32 weights fixed by seed: [N, T, width] to [N, T, width]."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return GeGlu(width, hidden, activation)


def example_inputs() -> dict[str, Tensor]:
    """Two sequences of 16 tokens, float32 [2, 16, 64]."""
    return {"x": torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(0))}

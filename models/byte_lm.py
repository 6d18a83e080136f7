"""A small causal language model over bytes: tokens int64 [N, T] to logits [N, T, 256] of the byte that comes next.

Blocks are pre-LayerNorm. It knows nothing of texts, training or export.
"""

from __future__ import annotations

import torch
from blocks import Block
from torch import Tensor, nn

CONTEXT = 64
"""Bytes that it can see at most."""


class ByteLM(nn.Module):
    """Embedded bytes, learned positions, causal blocks, and a linear head on every token."""

    def __init__(self, width: int, depth: int, heads: int, activation: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.positions = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, activation, causal=True) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: Tensor) -> Tensor:
        """Bytes as int64 [N, T], 0 to 255, T at most CONTEXT, to logits [N, T, 256]."""
        x = self.embedding(tokens) + self.positions[: tokens.shape[1]]
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


def byte_lm(activation: str = "gelu", *, depth: int = 3, width: int = 96, seed: int = 0) -> nn.Module:
    """The network with float32 weights fixed by seed and four heads: [N, T] to [N, T, 256]."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return ByteLM(width, depth, 4, activation)


def example_inputs() -> dict[str, Tensor]:
    """Two rows of random bytes, int64 [2, CONTEXT]."""
    return {"tokens": torch.randint(256, (2, CONTEXT), generator=torch.Generator().manual_seed(0))}

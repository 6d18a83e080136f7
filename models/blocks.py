"""The Transformer block of the reference networks beside this file: pre-LayerNorm, the activation swappable.

It knows nothing of what goes in before the first block or comes out after the last.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from activations import make
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head self-attention over tokens [N, T, width]; causal: no token sees a later one."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, width] to [N, T, width]."""
        query, key, value = (part.transpose(1, 2) for part in self.qkv(x).unflatten(2, (3, self.heads, -1)).unbind(2))
        scores = (query * self.scale) @ key.transpose(2, 3)
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        mixed: Tensor = self.out((scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2))
        return mixed


class Block(nn.Module):
    """Attention, then an MLP four times as wide inside; each is added to its own input, normalised first."""

    def __init__(
        self, width: int, heads: int, activation: str, norm: type[nn.Module] = nn.LayerNorm, *, causal: bool = False
    ) -> None:
        super().__init__()
        self.norm1 = norm(width)
        self.attention = Attention(width, heads, causal=causal)
        self.norm2 = norm(width)
        up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(OrderedDict(up=up, act=make(activation), down=down))

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, width] to [N, T, width]."""
        x = x + self.attention(self.norm1(x))
        mixed: Tensor = self.mlp(self.norm2(x))
        return x + mixed

"""A multilayer perceptron: features [N, 64] to logits [N, 10], the activation after every hidden layer.

It knows nothing of training or export.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from activations import make
from torch import Tensor, nn


class Mlp(nn.Module):
    """Hidden layers of one width, each followed by the activation, then a linear head."""

    def __init__(self, depth: int, width: int, activation: str) -> None:
        super().__init__()
        sizes = [64] + [width] * depth
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))
        self.acts = nn.ModuleList(make(activation) for _ in range(depth))
        self.head = nn.Linear(sizes[-1], 10)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 64] to [N, 10]."""
        for layer, act in zip(self.layers, self.acts, strict=True):
            x = act(layer(x))
        logits: Tensor = self.head(x)
        return logits


def mlp(activation: str = "gelu", *, depth: int = 3, width: int = 128, seed: int = 0) -> nn.Module:
    """The network with float32 weights fixed by seed: [N, 64] to [N, 10]."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return Mlp(depth, width, activation)


def example_inputs() -> dict[str, Tensor]:
    """Two feature vectors, float32 [2, 64]."""
    return {"x": torch.randn(2, 64, generator=torch.Generator().manual_seed(0))}

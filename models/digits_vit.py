"""A small vision transformer for scikit-learn's digits: images [N, 1, 8, 8] to logits [N, 10].

Blocks are pre-LayerNorm; an image is cut into sixteen 2×2 patches. It knows nothing of training or export.
"""

from __future__ import annotations

import torch
from blocks import Block
from torch import Tensor, nn


class DigitsViT(nn.Module):
    """Patches, learned positions, blocks, and a linear head on all tokens side by side."""

    def __init__(self, width: int, depth: int, heads: int, activation: str, norm: type[nn.Module]) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, kernel_size=2, stride=2)
        self.positions = nn.Parameter(torch.randn(16, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, activation, norm) for _ in range(depth)))
        self.norm = norm(width)
        self.head = nn.Linear(16 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 1, 8, 8], pixels in [-1, 1], to logits [N, 10]."""
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        logits: Tensor = self.head(self.norm(self.blocks(tokens)).flatten(1))
        return logits


def digits_vit(
    activation: str = "gelu", *, depth: int = 4, width: int = 48, seed: int = 0, norm: bool = True
) -> nn.Module:
    """The network with float32 weights fixed by seed and four heads: [N, 1, 8, 8] to [N, 10].

    Without ``norm`` every LayerNorm is left out; the other weights start the same.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return DigitsViT(width, depth, 4, activation, nn.LayerNorm if norm else nn.Identity)


def example_inputs() -> dict[str, Tensor]:
    """Two random images, float32 [2, 1, 8, 8], pixels in [-1, 1]."""
    return {"x": torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1}

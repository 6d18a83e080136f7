"""A stack of ConvNeXt blocks: feature maps [N, width, H, W] to the same shape (Liu et al., arXiv:2201.03545).

LayerScale starts at 1e-6 as in the paper, so an error inside a block hardly moves the stack's output.
It knows nothing of training or export.
"""

from __future__ import annotations

import torch
from activations import make
from torch import Tensor, nn


class Block(nn.Module):
    """Depthwise 7×7 convolution, LayerNorm over channels last, fourfold pointwise MLP, LayerScale, residual."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, kernel_size=7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.act = make(activation)
        self.down = nn.Linear(4 * width, width)
        self.layer_scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        """[N, width, H, W] to [N, width, H, W]."""
        last = self.depthwise(x).permute(0, 2, 3, 1)
        change: Tensor = self.down(self.act(self.up(self.norm(last)))) * self.layer_scale
        return x + change.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """Blocks one after another."""

    def __init__(self, depth: int, width: int, activation: str) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width, activation) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        """[N, width, H, W] to [N, width, H, W]."""
        features: Tensor = self.blocks(x)
        return features


def convnext(activation: str = "gelu", *, depth: int = 2, width: int = 32, seed: int = 0) -> nn.Module:
    """The stack with float32 weights fixed by seed: [N, width, H, W] to [N, width, H, W]."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return ConvNeXt(depth, width, activation)


def example_inputs() -> dict[str, Tensor]:
    """Two feature maps, float32 [2, 32, 14, 14]."""
    return {"x": torch.randn(2, 32, 14, 14, generator=torch.Generator().manual_seed(0))}

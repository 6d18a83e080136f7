"""MLP-Mixer (Tolstikhin and others, 2021): images [N, 3, size, size] to logits [N, 1000], two GELUs in every block."""

from __future__ import annotations

from torch import Tensor, nn


class Mlp(nn.Sequential):
    """Two linear layers of the last axis with a GELU between them."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


class Block(nn.Module):
    """Patches are mixed, then channels, each after a norm and with a residual."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.patches, self.channels = Mlp(patches, width // 2), Mlp(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, patches, width] to the same."""
        before, after = self.norms
        x = x + self.patches(before(x).transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = x + self.channels(after(x))
        return mixed


class Mixer(nn.Module):
    """Patches of ``patch`` x ``patch`` pixels, blocks, a norm, the mean over the patches, a linear head."""

    def __init__(self, image: int = 224, patch: int = 16, width: int = 512, depth: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(Block((image // patch) ** 2, width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """[N, 3, image, image] to [N, 1000]."""
        tokens = self.blocks(self.patches(pixel_values).flatten(2).transpose(1, 2))
        logits: Tensor = self.head(self.norm(tokens).mean(1))
        return logits

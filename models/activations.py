"""Activation layers by name, for the reference networks beside this file.

It knows nothing of the networks that use it. Every layer is elementwise: any shape in, the same shape out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn


class QuickGELU(nn.Module):
    """The sigmoid approximation x·σ(1.702x), as CLIP writes it (Hendrycks and Gimpel, arXiv:1606.08415)."""

    def forward(self, x: Tensor) -> Tensor:
        """Tensor of any shape to the same shape and dtype."""
        return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: Final[dict[str, Callable[[], nn.Module]]] = {
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "quick_gelu": QuickGELU,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
}


def make(name: str) -> nn.Module:
    """A new activation layer. Raises ValueError for a name that is not in ACTIVATIONS."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation={name!r} is unknown; use one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]()

"""GELU for those who build and train networks in PyTorch: layers, gradients by formula, one form for a whole network.

It needs torch, which nothing else in ``gelu_deploy`` but the exporters does, and knows nothing of ONNX files. The names
that are meant for users are those below.
"""

from __future__ import annotations

from gelu_deploy.errors import SetupError
from gelu_deploy.gelu.gain import gain

try:
    from gelu_deploy.nn.layers import GELU, Analytic, gelu
    from gelu_deploy.nn.replacing import Change, replace_gelu
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise SetupError("gelu_deploy.nn needs PyTorch; pip install 'gelu-deploy[torch]'") from error

__all__ = ["GELU", "Analytic", "Change", "gain", "gelu", "replace_gelu"]

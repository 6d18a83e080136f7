"""What is a GELU and what only looks like one, as PyTorch modules and functions."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from gelu_deploy.nn import GELU
from gelu_deploy.nn.finding import form_of_callable, form_of_module, functions_in

HUGGING_FACE = {
    "gelu": "erf",
    "gelu_python": "erf",
    "gelu_accurate": "tanh",
    "gelu_fast": "tanh",
    "gelu_new": "tanh",
    "gelu_python_tanh": "tanh",
    "gelu_pytorch_tanh": "tanh",
    "quick_gelu": "sigmoid",
}
OTHERS = [
    "gelu_10",
    "hardswish",
    "laplace",
    "leaky_relu",
    "linear",
    "mish",
    "prelu",
    "relu",
    "relu2",
    "relu6",
    "sigmoid",
    "silu",
    "swish",
    "tanh",
]


class Own(nn.Module):
    """A module around a function."""

    def __init__(self, function: Callable[..., Any], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class Dropped(nn.Module):
    """GELU in eval mode only."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(F.gelu(x), 0.1, self.training)


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


def tensor_gelu(x: Tensor) -> Tensor:
    gate: Tensor = torch.special.ndtr(x.float())
    return x * gate.to(x)


def in_place(x: Tensor) -> Tensor:
    return x.mul_(torch.sigmoid(1.702 * x))


def transformers_activation(name: str) -> nn.Module:
    from transformers.activations import ACT2FN

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: nn.Module = ACT2FN[name]
    return module


@pytest.mark.parametrize("name", [*HUGGING_FACE, *OTHERS])
def test_activations_of_transformers(name: str) -> None:
    assert form_of_module(transformers_activation(name)) == HUGGING_FACE.get(name, "")


@pytest.mark.parametrize(
    ("module", "form"),
    [
        (nn.GELU(), "erf"),
        (nn.GELU("tanh"), "tanh"),
        (GELU("hgelu"), "hgelu"),
        (GELU("refit5"), "refit5"),
        (Own(tanh_gelu), "tanh"),
        (Own(tensor_gelu), "erf"),
        (Own(in_place), "sigmoid"),
        (Own(lambda x: x * torch.sigmoid(1.7 * x)), "sigmoid"),
        (Own(lambda x: x * torch.sigmoid(1.69 * x)), ""),
        (Own(lambda x: 2 * F.gelu(x)), ""),
        (Own(lambda x: F.gelu(x) + 1e-3), ""),
        (Own(lambda x: F.gelu(x).sum()), ""),
        (Own(lambda x: F.gelu(x).flip(0)), ""),
        (Own(lambda x: F.gelu(x) if x.dim() == 1 else F.gelu(x).flip(0)), ""),
        (Own(lambda x: (F.gelu(x),)), ""),
        (Dropped(), ""),
        (Dropped().eval(), ""),
        (nn.SiLU(), ""),
        (nn.Dropout(), ""),
        (nn.Identity(), ""),
        (nn.Sequential(nn.GELU()), ""),
        (nn.Linear(4, 4), ""),
    ],
    ids=str,
)
def test_modules(module: nn.Module, form: str) -> None:
    mode, state = module.training, torch.random.get_rng_state()
    assert form_of_module(module) == form
    assert module.training == mode
    assert torch.equal(torch.random.get_rng_state(), state)


def test_functions() -> None:
    assert form_of_callable(F.gelu) == "erf"
    assert form_of_callable(functools.partial(F.gelu, approximate="tanh")) == "tanh"
    assert form_of_callable(tanh_gelu) == "tanh"
    assert form_of_callable(Own(tanh_gelu).forward) == ""  # its code names no GELU
    assert [form_of_callable(one) for one in (F.relu, F.silu, torch.erf, print, 3, nn.GELU, "gelu")] == [""] * 7


def test_a_function_that_can_be_none_is_not_called() -> None:
    called = list[Any]()

    def keep(x: Any) -> Any:
        called.append(x)
        return x

    module = Own(keep)
    assert functions_in(module) == {}
    assert called == []


def test_functions_in_attributes() -> None:
    module = nn.Module()
    module.act, module.other, module.count = tanh_gelu, F.relu, 3  # type: ignore[assignment] # any attribute
    assert functions_in(module) == {"act": "tanh"}


def test_hooks_are_not_run() -> None:
    called = list[Any]()
    module = nn.GELU()
    module.register_forward_hook(lambda *_: called.append(1))
    assert form_of_module(module) == "erf"
    assert called == []

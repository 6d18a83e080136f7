"""The gain against PyTorch's own, where it has one, and against an integral."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from gelu_deploy import gelu
from gelu_deploy.errors import UsageError
from gelu_deploy.gelu.gain import gain, gain_of

FORMS = {**gelu.FORMS, **gelu.REFERENCES}
KINKS = [-2.502, -1.7627, 0, 1.7627, 2.502]


@pytest.mark.parametrize(("name", "slope"), [("relu", 0.0), ("leaky_relu", 0.01), ("linear", 1.0)])
def test_the_same_routine_gives_torchs_gains(name: str, slope: float) -> None:
    known = torch.nn.init.calculate_gain(name, slope)  # type: ignore[arg-type] # a name of its list
    assert gain_of(lambda z: np.where(z > 0, z, slope * z)) == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gain_of_every_form(form: str) -> None:
    def square(z: float) -> float:
        return float(FORMS[form].reference(z)) ** 2 * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)

    second, _ = integrate.quad(square, -12, 12, points=KINKS, limit=200, epsabs=1e-13)
    assert gain(form) == pytest.approx(second**-0.5, rel=1e-9)


def test_gain_keeps_the_size_of_signals() -> None:
    """Ten layers deep: the mean square at the end is what it was, and with ReLU's gain it is not."""
    sizes = {}
    for used in (gain("tanh"), torch.nn.init.calculate_gain("relu")):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(64, 512, generator=generator)
        for _ in range(10):
            weight = torch.randn(512, 512, generator=generator) * used / 512**0.5
            x = torch.nn.functional.gelu(x, approximate="tanh") @ weight.T
        sizes[used] = float(x.square().mean())
    kept, lost = sizes.values()
    assert 0.5 < kept < 2
    assert lost < 0.3


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(UsageError, match="form='gelo' is no form of GELU; use one of erf, tanh"):
        gain("gelo")

"""The torch formulas against the float64 table and, to the last bits, against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from gelu_deploy import gelu
from gelu_deploy.gelu.approximations import ALPHA, REFIT3, TANH
from gelu_deploy.nn.formulas import FORMULAS, evaluate

TABLE = {**gelu.FORMS, **gelu.REFERENCES}
RANDOM = np.random.default_rng(0)
ROOT = -0.7517915246935645
WIDE = np.concatenate(
    [
        np.linspace(-37, 9, 501),
        RANDOM.uniform(-1.7, 0.1, 700),
        ROOT + RANDOM.choice([-1, 1], 200) * 10.0 ** RANDOM.uniform(-16, -1, 200),
        RANDOM.choice([-1, 1], 100) * 10.0 ** RANDOM.uniform(-300, 0, 100),
        [ROOT - 0.5, ROOT, np.nextafter(ROOT, 0), ROOT + 0.5, 0.0, 5e-324, 40.0, 1e300],
    ]
)


def logistic(p: Any) -> Any:
    return 1 / (1 + mpmath.exp(-p))


SMOOTH: dict[str, Callable[[Any], Any]] = {
    "erf": mpmath.ncdf,
    "tanh": lambda x: logistic(x * (TANH[0] + TANH[1] * x * x)),
    "sigmoid": lambda x: logistic(ALPHA * x),
    "refit3": lambda x: logistic(x * (REFIT3[0] + REFIT3[1] * x * x)),
}
"""The gates of forms that have derivatives everywhere."""


def at(form: str, x: np.ndarray, order: int, dtype: torch.dtype = torch.float64) -> np.ndarray:
    return evaluate(torch.from_numpy(x).to(dtype), form, order).double().numpy()


def units(got: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Distance to the exact gradient Φ + xφ in units in the last place of it."""
    with mpmath.workdps(40):
        exact = [mpmath.ncdf(one) + one * mpmath.npdf(one) for one in map(mpmath.mpf, x.tolist())]
    pairs = zip(got.tolist(), exact, strict=True)
    return np.array([float(abs(value - true) / float(np.spacing(abs(float(true))))) for value, true in pairs])


def test_gradient_is_right_to_four_units_in_the_last_place() -> None:
    assert units(at("erf", WIDE, 1), WIDE).max() <= 4


def test_gradient_of_torch_is_not() -> None:
    x = torch.tensor([-8.39, -0.7516], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.nn.functional.gelu(x).sum(), x)
    tail, root = units(slope.numpy(), x.detach().numpy())
    assert tail > 1e13  # 1.4 % of it
    assert root > 100


def test_gradient_in_float32_is_rounded_once() -> None:
    x = np.linspace(-12, 8, 4001, dtype=np.float32)
    got, known = at("erf", x, 1, torch.float32), gelu.FORMS["erf"].gradient(x)
    assert (np.abs(got - known) <= 0.51 * np.spacing(np.abs(known).astype(np.float32))).all()


def test_there_is_a_formula_for_every_form_of_the_table() -> None:
    assert set(FORMULAS) == set(TABLE)


@pytest.mark.parametrize("form", FORMULAS)
def test_formulas_are_those_of_the_table(form: str) -> None:
    x = np.linspace(-45, 45, 9001)
    np.testing.assert_allclose(at(form, x, 0), TABLE[form].reference(x), rtol=0, atol=1e-15)
    np.testing.assert_allclose(at(form, x, 1), TABLE[form].gradient(x), rtol=0, atol=1e-15)


@pytest.mark.parametrize("form", SMOOTH)
def test_derivatives_are_those_of_mpmath(form: str) -> None:
    def function(x: Any) -> Any:
        return x * SMOOTH[form](x)

    x = np.linspace(-9, 9, 37)
    for order in (1, 2):
        with mpmath.workdps(40):
            known = [float(mpmath.diff(function, one, order)) for one in x.tolist()]
        np.testing.assert_allclose(at(form, x, order), known, rtol=0, atol=4 * math.ulp(1.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("form", FORMULAS)
def test_derivatives_have_their_limits(form: str, dtype: torch.dtype) -> None:
    x = torch.tensor([-math.inf, -6e4, -300, 300, 6e4, math.inf], dtype=dtype)
    for order, known in ((1, [0.0, 0, 0, 1, 1, 1]), (2, [0.0, 0, 0, 0, 0, 0])):
        got = evaluate(x, form, order)
        assert got.dtype == dtype
        torch.testing.assert_close(got, torch.tensor(known, dtype=dtype), atol=1e-8, rtol=0)
    assert evaluate(x * math.nan, form, 1).isnan().all()


def test_sixteen_bits_round_once() -> None:
    x = torch.linspace(-8, 8, 2001).half()
    wide = evaluate(x.float(), "sigmoid", 1)
    assert torch.equal(evaluate(x, "sigmoid", 1), wide.half())

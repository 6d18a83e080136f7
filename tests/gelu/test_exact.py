"""GELU and its derivative in float64, against mpmath to the last bits and against PyTorch's gradcheck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy import special

from gelu_deploy import gelu
from gelu_deploy.gelu import exact

RANDOM = np.random.default_rng(0)
WIDE = np.concatenate(
    [
        np.linspace(-37, 9, 1501),
        RANDOM.uniform(-1.3, -0.3, 800),
        exact.ROOT[0] + RANDOM.choice([-1, 1], 200) * 10.0 ** RANDOM.uniform(-16, -1, 200),
        RANDOM.choice([-1, 1], 100) * 10.0 ** RANDOM.uniform(-300, 0, 100),
        [*exact.AROUND_ROOT, exact.ROOT[0], np.nextafter(exact.ROOT[0], 0), 0.0, 5e-324, 40.0, 1e300],
    ]
)
NORMAL = float(np.finfo(np.float64).tiny)
FORMS = {**gelu.FORMS, **gelu.REFERENCES}
KINKS = {"igelu": [0.0, -exact.SQRT2 * -1.769], "hgelu": [-3 / 1.702, 3 / 1.702], "refit5": [9.4]}


def _gradient(x: Any) -> Any:
    return mpmath.ncdf(x) + x * mpmath.npdf(x)


def _form(x: Any) -> Any:
    return x * mpmath.ncdf(x)


def units(got: np.ndarray, x: np.ndarray, known: Callable[[Any], Any]) -> float:
    """Largest distance in units in the last place of the true value, which must be a normal number."""
    worst = 0.0
    with mpmath.workdps(60):
        for value, at in zip(got.tolist(), x.tolist(), strict=True):
            true = known(mpmath.mpf(at))
            assert true == 0 or abs(true) >= NORMAL
            worst = max(worst, float(abs(value - true) / float(np.spacing(abs(float(true))))))
    return worst


def test_gradient_is_right_to_four_units_in_the_last_place() -> None:
    assert units(exact.erf_gradient(WIDE), WIDE, _gradient) <= 4


def test_form_and_distribution_are_right_to_four_units_in_the_last_place() -> None:
    x = WIDE[np.abs(WIDE) > 1e-290]
    assert units(exact.erf_form(x), x, _form) <= 4
    assert units(exact.cdf(WIDE), WIDE, mpmath.ncdf) <= 4


def test_results_that_are_no_normal_numbers_fade_to_zero() -> None:
    x = np.linspace(-45, -37, 201)
    gaps = [float(abs(got - _gradient(mpmath.mpf(at)))) for at, got in zip(x, exact.erf_gradient(x), strict=True)]
    assert max(gaps) < NORMAL
    assert (exact.erf_gradient(x[x < -40]) == 0).all()


def test_the_root_is_where_the_derivative_vanishes() -> None:
    with mpmath.workdps(60):
        root = mpmath.findroot(_gradient, -0.75)
        assert abs(root - mpmath.mpf(exact.ROOT[0]) - mpmath.mpf(exact.ROOT[1])) < 1e-32
        pairs = ((1 / mpmath.sqrt(2), exact.HALF_ROOT), (mpmath.npdf(0), exact.DENSITY))
        assert all(abs(true - large - mpmath.mpf(small)) < 1e-32 for true, (large, small) in pairs)


def test_any_shape_and_any_number_comes_back_as_float64() -> None:
    assert exact.erf_gradient(0).shape == ()
    assert float(exact.erf_gradient(-1)) == pytest.approx(-0.0833154706, abs=1e-9)
    for function in (exact.erf_gradient, exact.erf_form, exact.cdf):
        assert function(np.zeros((2, 0, 3), np.float32)).shape == (2, 0, 3)
        assert function(np.array([[1, -0.75]], np.float32)).dtype == np.float64
        assert np.isnan(function([np.nan, 0.0])).tolist() == [True, False]


def test_exact_form_agrees_with_scipy() -> None:
    x = np.linspace(-37, 37, 20_001)
    np.testing.assert_allclose(exact.erf_form(x), x * special.ndtr(x), rtol=1e-11, atol=0)


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_gradcheck_accepts_the_gradient_at_a_billionth(form: gelu.Form) -> None:
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return torch.from_numpy(form.reference(x.numpy()))

        @staticmethod
        def backward(ctx: Any, upstream: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return upstream * torch.from_numpy(form.gradient(x.numpy()))

    x = np.concatenate([np.linspace(-9, 9, 61), [-0.75, 0.3]])
    near_a_kink = [abs(np.abs(x) - abs(kink)) < 1e-3 for kink in KINKS.get(form.name, ())]
    smooth = torch.from_numpy(x[~np.any(near_a_kink, axis=0)] if near_a_kink else x).requires_grad_()
    assert torch.autograd.gradcheck(Function.apply, (smooth,), eps=1e-5, atol=1e-9, rtol=0)

"""The table of forms against independent sources: scipy, finite differences, the published bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from gelu_deploy import gelu

DENSE = np.linspace(-12, 12, 240_001)


def test_exact_form_keeps_relative_accuracy_in_the_left_tail() -> None:
    x = np.linspace(-37, 37, 20_001)
    np.testing.assert_allclose(gelu.erf_form(x), x * special.ndtr(x), rtol=1e-11, atol=0)


@pytest.mark.parametrize("form", gelu.FORMS.values(), ids=lambda form: form.name)
def test_bound_is_attained_where_the_table_says(form: gelu.Form) -> None:
    distance = np.abs(form.reference(DENSE) - gelu.erf_form(DENSE))
    assert distance.max() <= form.bound
    assert distance.max() >= 0.999 * form.bound
    if form.bound:
        assert abs(DENSE[distance.argmax()]) == pytest.approx(form.worst_at, abs=0.01)


@pytest.mark.parametrize("form", gelu.FORMS.values(), ids=lambda form: form.name)
def test_gradient_is_the_derivative(form: gelu.Form) -> None:
    step = 1e-6
    numeric = (form.reference(DENSE + step) - form.reference(DENSE - step)) / (2 * step)
    np.testing.assert_allclose(form.gradient(DENSE), numeric, atol=1e-8)


@pytest.mark.parametrize("form", gelu.FORMS.values(), ids=lambda form: form.name)
def test_extremes_have_their_limits(form: gelu.Form) -> None:
    x = np.array([-np.inf, -1e300, -1e4, -0.0, 0.0, 1e4, 1e300, np.inf])
    known = np.array([0, 0, 0, 0, 0, 1e4, 1e300, np.inf])
    got = form.reference(x)
    assert got[0] == 0
    assert got[-1] == np.inf
    assert (np.abs(got[1:-1] - known[1:-1]) <= 1e-15 * np.abs(x[1:-1])).all()
    np.testing.assert_allclose(form.gradient(x), [0, 0, 0, 0.5, 0.5, 1, 1, 1], atol=1e-15)
    assert np.isnan(form.reference(np.nan))


def test_published_root_mean_square_errors() -> None:
    """I-BERT (ICML 2021), table 1, on [-4, 4]: the sigmoid form 0.012 and 0.020."""
    x = np.linspace(-4, 4, 100_001)
    distance = gelu.sigmoid_form(x) - gelu.erf_form(x)
    assert np.sqrt(np.mean(distance**2)) == pytest.approx(0.01181, abs=1e-5)
    assert np.abs(distance).max() == pytest.approx(0.02033, abs=1e-5)


def test_every_slope_of_the_sigmoid_form_is_a_rounding_of_the_exact_one() -> None:
    assert all(abs(alpha - gelu.ALPHA) <= 0.002 + 1e-9 for alpha in gelu.FORMS["sigmoid"].alphas)

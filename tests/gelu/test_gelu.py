"""The table of forms against finite differences, and at its extremes."""

from __future__ import annotations

import numpy as np
import pytest

from gelu_deploy import gelu

DENSE = np.linspace(-12, 12, 24_001) + 1e-5
FORMS = [*gelu.FORMS.values(), *gelu.REFERENCES.values()]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_gradient_is_the_derivative(form: gelu.Form) -> None:
    step = 1e-6
    numeric = (form.reference(DENSE + step) - form.reference(DENSE - step)) / (2 * step)
    np.testing.assert_allclose(form.gradient(DENSE), numeric, atol=1e-8)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_extremes_have_their_limits(form: gelu.Form) -> None:
    x = np.array([-np.inf, -1e300, -1e4, -0.0, 0.0, 1e4, 1e300, np.inf])
    known = np.array([0, 0, 0, 0, 0, 1e4, 1e300, np.inf])
    got = form.reference(x)
    assert got[0] == 0
    assert got[-1] == np.inf
    assert (np.abs(got[1:-1] - known[1:-1]) <= 1e-15 * np.abs(x[1:-1])).all()
    np.testing.assert_allclose(form.gradient(x), [0, 0, 0, 0.5, 0.5, 1, 1, 1], atol=1e-15)
    assert np.isnan(form.reference(np.nan))


def test_every_slope_of_the_sigmoid_form_is_a_rounding_of_the_exact_one() -> None:
    assert all(abs(alpha - gelu.ALPHA) <= 0.002 + 1e-9 for alpha in gelu.FORMS["sigmoid"].alphas)

"""Which form numbers are, and when they do not tell."""

from __future__ import annotations

import numpy as np
import pytest

from gelu_deploy import gelu
from gelu_deploy.graph.judge import GRID
from gelu_deploy.others.judge import NONE, nearest

X = GRID.astype(np.float32)


@pytest.mark.parametrize("form", gelu.FORMS)
def test_every_form_is_nearest_to_itself(form: str) -> None:
    found = nearest(X, gelu.FORMS[form].reference(X).astype(np.float32))
    assert (found.form, found.sure) == (form, True)
    assert found.error < 2e-6 < found.margin
    assert min(found.distances.values()) == found.error


def test_any_slope_of_the_sigmoid_form_is_that_form() -> None:
    assert nearest(X, gelu.sigmoid_form(X, 1.7)).form == "sigmoid"


def test_inputs_that_do_not_reach_where_forms_differ_tell_nothing() -> None:
    x = np.linspace(-0.1, 0.1, 64, dtype=np.float32)
    assert not nearest(x, gelu.erf_form(x)).sure
    reach = np.append(x, np.float32(-2.7))
    assert nearest(reach, gelu.erf_form(reach)).sure


def test_what_is_no_gelu_is_none() -> None:
    relu = nearest(X, np.maximum(X, 0))
    assert (relu.form, relu.sure) == (NONE, True)
    broken = gelu.tanh_form(X)
    broken[-1] = np.nan
    assert nearest(X, broken).form == NONE
    infinite = np.append(X, np.float32(-np.inf))
    assert nearest(infinite, np.append(gelu.tanh_form(X), np.nan)).form == "tanh", "nothing is judged at infinity"

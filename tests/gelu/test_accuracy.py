"""Published errors of published forms, found again; and the search for a largest value itself."""

from __future__ import annotations

import numpy as np
import pytest

from gelu_deploy.gelu import FORMS, REFERENCES, Form, accuracy

ALL = {**FORMS, **REFERENCES}

IBERT_TABLE_1 = {"sigmoid": ("0.012", "0.020"), "hgelu": ("0.031", "0.068"), "igelu": ("0.0082", "0.018")}
"""I-BERT (ICML 2021), table 1: RMS ("L2") and largest error on [-4, 4]."""


@pytest.mark.parametrize("name", IBERT_TABLE_1)
def test_table_1_of_ibert(name: str) -> None:
    """To the printed digits; the 0.0687 of h-GELU is printed with its last digit cut off, the others are rounded."""
    measured = (accuracy.rms(ALL[name]), accuracy.absolute(ALL[name]).value)
    for value, printed in zip(measured, IBERT_TABLE_1[name], strict=True):
        digits = len(printed.partition(".")[2])
        cut = f"{np.trunc(value * 10**digits) / 10**digits:.{digits}f}"
        assert printed in ({cut} if name == "hgelu" and digits == 3 and value > 0.05 else {f"{value:.{digits}f}"})


def test_the_numbers_that_are_known_of_each_form() -> None:
    largest = {name: accuracy.absolute(form) for name, form in ALL.items()}
    assert f"{largest['tanh'].value:.3e} at {largest['tanh'].at:.2f}" == "4.732e-04 at 2.70"
    assert f"{largest['sigmoid'].value:.4e} at {largest['sigmoid'].at:.2f}" == "2.0335e-02 at 2.27"
    assert f"{largest['igelu'].value:.4f}" == "0.0182"
    assert f"{largest['hgelu'].value:.4f}" == "0.0687"
    assert f"{accuracy.in_erf(ALL['as7127']).value:.1e}" == "4.7e-04"
    assert f"{largest['as7127'].value:.1e}" == "6.9e-04"
    assert f"{largest['refit3'].value:.3e}" == "2.707e-04"
    assert f"{largest['refit5'].value:.1e}" == "7.8e-05"
    assert largest["erf"].value == largest["erfc"].value == accuracy.in_erf(ALL["erf"]).value == 0


@pytest.mark.parametrize("form", ALL.values(), ids=lambda form: form.name)
def test_the_table_holds_what_the_search_finds(form: Form) -> None:
    found = accuracy.absolute(form)
    assert found.value <= form.bound <= 1.001 * found.value
    assert found.at == pytest.approx(form.worst_at, abs=3e-3)
    beyond = np.linspace(accuracy.REACH, 1000, 100_001)
    assert np.max(np.abs(form.reference(-beyond)) / np.maximum(1, beyond / 40)) <= 1e-6


@pytest.mark.parametrize("form", ALL.values(), ids=lambda form: form.name)
def test_the_distance_is_the_same_on_both_sides(form: Form) -> None:
    x = np.linspace(0, 10, 10_001)
    exact = FORMS["erf"].reference
    np.testing.assert_allclose(form.reference(x) - exact(x), form.reference(-x) - exact(-x), rtol=0, atol=5e-15)


def test_relative_errors() -> None:
    assert accuracy.relative(ALL["tanh"], 1e-6, 12).value == pytest.approx(2.0e-4, abs=0.05e-4)
    assert accuracy.relative(ALL["sigmoid"], 1e-6, 12).value == pytest.approx(1.35e-2, abs=0.05e-2)
    for x, tanh, sigmoid in ((-3, 0.10, 3.46), (-4, 0.45, 33.8), (-5, 0.84, 702)):
        assert accuracy.relative(ALL["tanh"], x, -1e-6).value == pytest.approx(tanh, rel=0.03)
        assert accuracy.relative(ALL["sigmoid"], x, -1e-6).value == pytest.approx(sigmoid, rel=0.01)


@pytest.mark.parametrize(("top", "tanh", "sigmoid"), [(4, 0.74, 40), (6, 0.51, 29), (8, 0.37, 21), (20, 0.15, 8)])
def test_codes_at_8_bits(top: float, tanh: float, sigmoid: float) -> None:
    """Percent of samples, as measured on 400,000 of them."""
    assert 100 * accuracy.codes_changed(ALL["tanh"], top) == pytest.approx(tanh, abs=0.04)
    assert 100 * accuracy.codes_changed(ALL["sigmoid"], top) == pytest.approx(sigmoid, abs=0.8)


@pytest.mark.parametrize("centre", [0.0, 0.123456789, 7.0, 10.0])
def test_a_peak_is_found_to_a_billionth_of_the_range(centre: float) -> None:
    found = accuracy.peak(lambda x: 2 - np.abs(x - centre) ** 1.5, 0, 10)
    assert found.at == pytest.approx(centre, abs=1e-8)
    assert found.value == pytest.approx(2)

"""Every approximation against mpmath: the same formula in 300 digits, in the left tail by relative error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from gelu_deploy.gelu import FORMS, REFERENCES

X = np.concatenate([np.linspace(-8, 8, 161) + 0.003, [-1e-9, 1e-9, -20.0, 20.0]])


def _gate(*odd: float, reach: float = 1e9) -> Callable[[Any], Any]:
    def form(x: Any) -> Any:
        held = max(min(x, mpf(reach)), -mpf(reach))
        return x / (1 + mpmath.exp(-sum(mpf(c) * held ** (2 * k + 1) for k, c in enumerate(odd))))

    return form


def _erf(x: Any) -> Any:
    return x * mpmath.ncdf(x)


def _tanh(x: Any) -> Any:
    return x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpf(0.044715) * x**3)))


def _igelu(x: Any) -> Any:
    z = x / mpmath.sqrt(2)
    return x / 2 * (1 + mpmath.sign(z) * (mpf(-0.2888) * (min(abs(z), mpf(1.769)) - mpf(1.769)) ** 2 + 1))


def _hgelu(x: Any) -> Any:
    return x * max(0, min(6, mpf(1.702) * x + 3)) / 6


def _as7127(x: Any) -> Any:
    z = abs(x) / mpmath.sqrt(2)
    p = 1 + mpf(0.278393) * z + mpf(0.230389) * z**2 + mpf(0.000972) * z**3 + mpf(0.078108) * z**4
    return x / 2 * (1 + mpmath.sign(x) * (1 - p**-4))


KNOWN: dict[str, Callable[[Any], Any]] = {
    "erf": _erf,
    "erfc": _erf,
    "tanh": _tanh,
    "sigmoid": _gate(1.702),
    "refit3": _gate(1.600314, 0.0694018),
    "refit5": _gate(1.5965385, 0.07282274, -5.347e-4, reach=9.4),
    "igelu": _igelu,
    "hgelu": _hgelu,
    "as7127": _as7127,
}
FORMS_ALL = {**FORMS, **REFERENCES}


@pytest.mark.parametrize("name", FORMS_ALL)
def test_values(name: str) -> None:
    got = FORMS_ALL[name].reference(X)
    with mpmath.workdps(300):
        for value, x in zip(got, X, strict=True):
            true = KNOWN[name](mpf(float(x)))
            if name in {"igelu", "hgelu"}:  # their tails are exact zeros that a rounding may miss
                assert abs(value - true) <= 4e-16 * abs(x)
            else:
                assert abs(value - true) <= 4e-15 * max(1, abs(x)) ** 3 * abs(true), x


@pytest.mark.parametrize("name", FORMS_ALL)
def test_gradients(name: str) -> None:
    """Relative to the larger of the true slope and the largest term in it: near a root no sum does better."""
    got = FORMS_ALL[name].gradient(X)
    with mpmath.workdps(300):
        for value, x in zip(got, X, strict=True):
            at = mpf(float(x))
            slope = mpmath.diff(KNOWN[name], at, h=mpf(10) ** -25)
            scale = abs(slope) + abs(KNOWN[name](at) / at)
            assert abs(value - slope) <= 4e-15 * max(1, abs(x)) ** 3 * scale + (1e-16 if name == "igelu" else 0), x

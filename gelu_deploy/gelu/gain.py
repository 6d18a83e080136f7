"""What a layer before an activation must be scaled by, so that signals keep their size through both.

It knows functions of one variable, and nothing of layers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gelu_deploy.errors import UsageError
from gelu_deploy.gelu import FORMS, REFERENCES
from gelu_deploy.gelu.exact import Float64

REACH, POINTS = 10.0, 100_001
"""Of the sum that stands for the integral. For what decays like a normal density equal steps are exact to the last
bits; a kink costs about 1e-10, where Gauss-Hermite quadrature of 100 points is off by 9e-4 for h-GELU."""


def gain(form: str = "erf") -> float:
    """1/√E[f(z)²] of standard normal z: as in ``torch.nn.init.calculate_gain``, which has no 'gelu'.

    Weights drawn with standard deviation gain/√fan_in keep the mean square of what goes through layer and activation
    (He et al. 2015, arXiv:1502.01852, section 2.2).

    Raises:
        UsageError: There is no such form.
    """
    forms = {**FORMS, **REFERENCES}
    if form not in forms:
        raise UsageError(f"form={form!r} is no form of GELU; use one of {', '.join(forms)}.")
    return gain_of(forms[form].reference)


def gain_of(function: Callable[[Float64], Float64]) -> float:
    """The same for any activation, as a float64 function of arrays."""
    z = np.linspace(-REACH, REACH, POINTS)
    weights = np.exp(-0.5 * z * z)
    return float(np.sqrt(weights.sum() / (weights @ function(z) ** 2)))

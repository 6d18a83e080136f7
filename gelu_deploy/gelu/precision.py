"""A form as its operators compute it in one type of numbers: errors over all values, and where something overflows.

Each operator is exact and its result rounded to the type, as kernels do that compute in float32 inside; an operator
that is the form itself is its float64 reference, rounded. It knows neither graphs nor runtimes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from gelu_deploy.gelu import ALPHA, Form
from gelu_deploy.gelu.accuracy import TAIL, Peak
from gelu_deploy.gelu.exact import FAR, Float64, erf_form, erfc
from gelu_deploy.gelu.operators import EVALUATE

Values = NDArray[Any]

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype(np.float32)}
"""Those whose safe ranges are told; the first two have 65,536 values each."""
PRIMITIVE = {**EVALUATE, "Erfc": erfc}
SIXTEEN = ("float16", "bfloat16")


def computed(form: Form, spelling: str, x: Values) -> tuple[Values, NDArray[np.bool_]]:
    """What the operators of a spelling give at ``x`` in its own type, and where all of them gave finite numbers."""
    values: dict[str | float, Values] = {"x": x, "alpha": np.asarray(ALPHA, x.dtype)}
    finite = np.ones(x.shape, np.bool_)
    with np.errstate(all="ignore"):
        for step in form.spellings[spelling].steps:
            inputs = [np.asarray(values.get(item, item), x.dtype).astype(np.float64) for item in step.inputs]
            function = PRIMITIVE.get(step.op, form.reference)
            result = np.asarray(function(*inputs)).astype(x.dtype)
            values[step.output] = result
            finite &= np.isfinite(result)
    return values["y"], finite


def error(form: Form, spelling: str, dtype: str, *, inside: str = "") -> Peak:
    """Largest distance to GELU over every finite value of a 16-bit type, inf where an answer is not finite.

    Beyond ±40, where GELU is 0 or x, it is relative to |x|/40: a unit in the last place is large there.

    Args:
        form: The form.
        spelling: Which operators compute it.
        dtype: ``float16`` or ``bfloat16``.
        inside: Type to compute in between two Casts, if another.
    """
    x, exact = _sixteen(dtype)
    y = computed(form, spelling, x.astype(TYPES[inside]) if inside else x)[0].astype(x.dtype)
    scale = np.maximum(1, np.abs(x.astype(np.float64)) / FAR)
    return _largest(np.abs(y.astype(np.float64) - exact) / scale, x)


def tail(form: Form, spelling: str) -> Peak:
    """Largest relative error on the left tail, −6 to 0, of what the operators give in float32.

    NaN for an operator that is the form itself: kernels do as they like there.
    """
    if not all(step.op in PRIMITIVE for step in form.spellings[spelling].steps):
        return Peak(np.nan, np.nan)
    x = np.linspace(TAIL, -1e-3, 60_001, dtype=np.float32)
    exact = erf_form(x)
    y = computed(form, spelling, x)[0].astype(np.float64)
    return _largest(np.abs((y - exact) / exact), x)


def safe(form: Form, spelling: str, dtype: str) -> float:
    """The largest number up to which, on both sides of 0, no operator overflows or gives NaN."""
    kind = TYPES[dtype]
    coarse = _from_bits(np.arange(1 << 15) << 8 * (kind.itemsize - 2), kind)
    last = _last_safe(form, spelling, coarse)
    if kind.itemsize == 2:
        return float(coarse[last])
    fine = _from_bits((last << 16) + np.arange(1 << 16), kind)
    return float(fine[_last_safe(form, spelling, fine)])


def _last_safe(form: Form, spelling: str, sizes: Values) -> int:
    """Place of the last of ascending finite sizes before the first that is not safe."""
    unsafe = ~(computed(form, spelling, sizes)[1] & computed(form, spelling, -sizes)[1])
    return (int(np.argmax(unsafe)) if unsafe.any() else len(sizes)) - 1


def _from_bits(bits: Any, kind: np.dtype[Any]) -> Values:
    """The finite numbers with these bits."""
    with np.errstate(invalid="ignore"):
        numbers = bits.astype(f"u{kind.itemsize}").view(kind)
        return np.asarray(numbers[np.isfinite(numbers)])


@cache
def _sixteen(dtype: str) -> tuple[Values, Float64]:
    """Every finite value of a 16-bit type, and GELU there."""
    x = _from_bits(np.arange(1 << 16), TYPES[dtype])
    return x, erf_form(x)


def _largest(distance: Float64, x: Values) -> Peak:
    distance = np.where(np.isnan(distance), np.inf, distance)
    worst = int(np.argmax(distance))
    return Peak(float(distance[worst]), float(x[worst]))

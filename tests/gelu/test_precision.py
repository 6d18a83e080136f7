"""What operators make of a form in 16 bits: published numbers, and where x³ ends."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gelu_deploy.gelu import FORMS, REFERENCES, Form, Spelling, Step, precision

ALL = {**FORMS, **REFERENCES}
SPELLED = [(form, name) for form in ALL.values() for name in form.spellings]
NAMES = [f"{form.name}-{name}" for form, name in SPELLED]


def test_operators_are_rounded_one_by_one() -> None:
    """Against float16 arithmetic of NumPy itself, which rounds every operation."""
    x = np.linspace(-8, 8, 4001).astype(np.float16)
    half, three, k, s = (np.float16(number) for number in (0.5, 3, 0.044715, 0.7978845608))
    cube = (x.astype(np.float64) ** float(three)).astype(np.float16)
    wanted = (x * half) * (np.tanh((x + cube * k) * s) + np.float16(1))
    got, finite = precision.computed(ALL["tanh"], "ops", x)
    assert got.dtype == np.float16
    assert finite.all()
    assert (got == wanted).mean() > 0.999  # NumPy's own tanh of float16 is off by a unit here and there
    np.testing.assert_allclose(got.astype(float), wanted.astype(float), atol=4e-3)


@pytest.mark.parametrize(
    ("form", "spelling", "float16", "bfloat16"),
    [
        ("erf", "gelu", "9.8e-04", "7.8e-03"),
        ("erf", "ops", "1.9e-03", "8.4e-03"),
        ("tanh", "ops", "2.4e-03", "9.3e-03"),
    ],
)
def test_errors_over_all_values(form: str, spelling: str, float16: str, bfloat16: str) -> None:
    assert f"{precision.error(ALL[form], spelling, 'float16').value:.1e}" == float16
    assert f"{precision.error(ALL[form], spelling, 'bfloat16').value:.1e}" == bfloat16
    assert f"{precision.error(ALL['erf'], 'ops', 'float16', inside='float32').value:.1e}" == "9.8e-04"


@pytest.mark.parametrize(("form", "spelling"), SPELLED, ids=NAMES)
def test_every_finite_value_has_a_finite_answer_and_float32_inside_is_no_worse(form: Form, spelling: str) -> None:
    for dtype, unit in (("float16", 2.0**-9), ("bfloat16", 2.0**-6)):
        plain = precision.error(form, spelling, dtype).value
        assert precision.error(form, spelling, dtype, inside="float32").value <= 1.01 * plain
        assert plain <= form.bound + 2 * unit


def test_the_left_tail_in_float32() -> None:
    assert precision.tail(ALL["erf"], "ops").value == 1
    assert precision.tail(ALL["erfc"], "aten").value < 4e-6
    assert np.isnan(precision.tail(ALL["erf"], "gelu").value)


def test_the_cube_overflows_where_it_does() -> None:
    safe = precision.safe(ALL["tanh"], "ops", "float16")
    assert safe == 40.3125
    with np.errstate(over="ignore"):
        assert np.isfinite(np.float16(safe) ** 3)
        assert np.isinf(np.nextafter(np.float16(safe), np.float16(np.inf)) ** 3)
    cube_root = float(np.finfo(np.float32).max) ** (1 / 3)
    assert precision.safe(ALL["tanh"], "ops", "float32") == pytest.approx(cube_root, rel=1e-6)


@pytest.mark.parametrize(("form", "spelling"), SPELLED, ids=NAMES)
@pytest.mark.parametrize("dtype", precision.TYPES)
def test_the_safe_range_ends_where_the_next_number_overflows(form: Form, spelling: str, dtype: str) -> None:
    kind = precision.TYPES[dtype]
    last = np.asarray([precision.safe(form, spelling, dtype)], kind)
    assert precision.computed(form, spelling, np.concatenate([last, -last]))[1].all()
    beyond = (last.view(f"u{kind.itemsize}") + 1).view(kind)
    if np.isfinite(beyond).all():
        assert not precision.computed(form, spelling, np.concatenate([beyond, -beyond]))[1].all()
    else:
        assert float(last[0]) == float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]  # theirs


def test_an_overflow_on_one_side_only_counts() -> None:
    steps = (Step("Mul", ("x", -1.0), "minus"), Step("Exp", ("minus",)))
    form = Form("decay", np.exp, np.exp, 0, 0, {"ops": Spelling(steps)})
    assert precision.safe(form, "ops", "float16") == pytest.approx(np.log(65504), rel=1e-3)

"""When two sets of arrays agree."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from gelu_deploy import gelu
from gelu_deploy.errors import UsageError
from gelu_deploy.parity import TOLERANCES, Limits, compare, difference, site_stage, tolerance

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
FINITE = st.floats(-1e6, 1e6, width=32)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ANY = arrays.arrays(np.float32, SHAPES, elements=FLOATS)
X = np.linspace(-6, 6, 25, dtype=np.float32)


def one(got: Any, wanted: Any, limits: Limits | None = None) -> Any:
    return compare("stage", [("y", np.asarray(got), np.asarray(wanted))], limits or Limits())


@given(ANY)
def test_anything_agrees_with_itself(a: NDArray[Any]) -> None:
    assert difference(a, a.copy()) == (0.0, 0.0)
    assert one(a, a.copy())["passed"]


@given(ANY, ANY)
def test_difference_is_the_same_both_ways_and_never_nan(a: NDArray[Any], b: NDArray[Any]) -> None:
    absolute, relative = difference(a, b)
    assert absolute == difference(b, a)[0]
    assert absolute >= 0
    assert relative >= 0
    assert math.isinf(absolute) or a.shape == b.shape


@given(arrays.arrays(np.float32, arrays.array_shapes(min_side=1), elements=FINITE), st.data())
def test_nan_or_inf_in_another_place_is_always_a_failure(a: NDArray[Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, a.size - 1))
    for odd in (np.nan, np.inf, -np.inf):
        changed = a.copy()
        changed.reshape(-1)[place] = odd
        for got, wanted in ((changed, a), (a, changed)):
            assert difference(got, wanted)[0] == np.inf
            stage = one(got, wanted, Limits({"": 1e30}, {"": 1.0}))
            assert not stage["passed"]
            assert stage["ratio"] == np.inf
        assert one(changed, changed.copy())["passed"]
    for odd, other in ((np.inf, -np.inf), (np.nan, np.inf)):
        assert not one(np.full_like(a, odd), np.full_like(a, other))["passed"]


@given(
    arrays.arrays(np.float32, arrays.array_shapes(min_side=1), elements=st.floats(-100, 100, width=32)),
    st.floats(0.0, 4.0),
)
def test_the_ratio_is_the_difference_in_units_of_what_is_allowed(a: NDArray[Any], factor: float) -> None:
    wide = a.astype(np.float64)
    allowed = TOLERANCES["float64"].output * max(1.0, float(np.abs(wide).max()))
    changed = wide.copy()
    changed.reshape(-1)[0] += factor * allowed
    moved = float(np.abs(changed - wide).max())
    stage = one(changed, wide)
    assert stage["max_abs"] == moved
    assert stage["ratio"] == pytest.approx(moved / allowed)
    assert stage["passed"] == (stage["ratio"] <= 1)


@pytest.mark.parametrize(
    ("got", "wanted"), [((2, 3), (3, 2)), ((2, 3), (6,)), ((0,), (2,)), ((), (1,)), ((2, 0), (0, 2))]
)
def test_another_shape_is_a_failure(got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    assert difference(np.zeros(got), np.zeros(wanted)) == (np.inf, np.inf)
    assert not one(np.zeros(got), np.zeros(wanted))["passed"]


def test_nothing_agrees_with_nothing() -> None:
    assert difference(np.zeros((0, 3)), np.zeros((0, 3))) == (0.0, 0.0)
    assert one(np.zeros((0, 3)), np.zeros((0, 3)))["passed"]
    assert compare("stage", [], Limits())["passed"]


def test_relative_difference_is_over_the_largest_that_was_wanted() -> None:
    assert difference(np.array([1.0, 10.5]), np.array([1.0, 10.0])) == (0.5, 0.05)
    assert difference(np.array([1.0]), np.array([0.0])) == (1.0, np.inf)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_])
def test_integers_and_bools_must_agree_exactly(dtype: Any) -> None:
    wanted = np.array([0, 1, 1], dtype)
    assert one(wanted.copy(), wanted)["passed"]
    other = one(np.array([0, 1, 0], dtype), wanted)
    assert (other["passed"], other["max_abs"], other["ratio"]) == (False, 1.0, np.inf)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_each_type_has_its_row(dtype: Any) -> None:
    row = TOLERANCES[np.dtype(dtype).name]
    assert tolerance(np.dtype(dtype)) is row
    wanted = np.array([0.0, 4.0], dtype)
    assert Limits().allowed("y", wanted) == pytest.approx(4 * row.output)
    assert Limits().allowed("y", np.array([0.25], dtype)) == row.output


def test_no_float32_tolerance_can_hide_another_form() -> None:
    apart = np.abs(gelu.erf_form(X.astype(np.float64)) - gelu.tanh_form(X.astype(np.float64))).max()
    row = TOLERANCES["float32"]
    assert max(row.output, row.site, row.form) < 1e-4 < apart


def test_limits_of_ones_own_for_all_outputs_or_one() -> None:
    limits = Limits.parse(["1e-3", "logits:0.5"], ["pooled:0.1"])
    wanted = np.array([3.0, -20.0], np.float32)
    assert limits.allowed("other", wanted) == 1e-3
    assert limits.allowed("logits", wanted) == 0.5
    assert limits.allowed("pooled", wanted) == pytest.approx(1e-3 + 2.0)
    assert Limits.parse([], ["a:b:0.1"]).allowed("a:b", wanted) == pytest.approx(2.0)
    assert Limits.parse(["0"], []).allowed("y", wanted) == 0.0
    assert one(wanted, wanted, Limits.parse(["0"], []))["passed"]


@pytest.mark.parametrize("text", ["", "abc", "-1", "nan", "inf", "logits:", "logits:x", "1e-5:logits"])
def test_what_is_no_tolerance_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=r"--atol .*: expected a number such as 1e-5, or OUTPUT:1e-5"):
        Limits.parse([text], [])
    with pytest.raises(UsageError, match="--rtol"):
        Limits.parse([], [text])


def test_the_worst_output_is_named_by_its_ratio() -> None:
    big, small = np.array([1000.0], np.float32), np.array([1.0], np.float32)
    pairs = [("big", big + 0.01, big), ("small", small + 1e-4, small), ("same", small, small)]
    stage = compare("stage", pairs, Limits())
    assert stage["worst"] == "small"
    assert stage["max_abs"] == pytest.approx(0.01, rel=0.01)
    assert not stage["passed"]


def site(form: str, x: NDArray[Any], got: Any) -> Any:
    return site_stage("sites", [("act", x, np.asarray(got, x.dtype), np.asarray(gelu.FORMS[form].at(None)(x)))])


@pytest.mark.parametrize("form", ["erf", "tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_site_is_held_to_its_own_form(form: str, dtype: Any) -> None:
    x = X.astype(dtype)
    wide = x.astype(np.float64)
    for other in ("erf", "tanh", "sigmoid"):
        stage = site(form, x, gelu.FORMS[other].at(None)(wide))
        told_apart = dtype == np.float32 or (dtype == np.float16 and "sigmoid" in (form, other))
        if other == form or told_apart:
            assert stage["passed"] == (other == form), (other, stage)


def test_what_a_site_may_be_off_grows_with_its_input() -> None:
    x = np.array([1000.0], np.float32)
    assert site("erf", x, [1000.0 + 1e-3])["passed"]
    assert not site("erf", x, [1000.0 + 1e-2])["passed"]
    assert not site("erf", np.array([1.0], np.float32), [0.8413447 + 1e-5])["passed"]


def test_where_the_input_of_a_site_is_not_finite_nothing_is_judged() -> None:
    x = np.array([-np.inf, 1.0, np.inf, np.nan], np.float32)
    assert site("erf", x, [np.nan, 0.8413447, np.inf, np.nan])["passed"]
    assert site("erf", x, [0.0, 0.8413447, np.inf, 0.0])["passed"]
    broken = site("erf", x, [np.nan, np.nan, np.inf, np.nan])
    assert (broken["passed"], broken["ratio"]) == (False, np.inf)


def test_a_site_of_another_shape_or_of_nothing() -> None:
    assert not site_stage("sites", [("act", X, X[:3], X.astype(np.float64))])["passed"]
    empty = np.zeros((0, 4), np.float32)
    assert site("erf", empty, empty)["passed"]

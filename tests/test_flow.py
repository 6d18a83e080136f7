"""What a survey counts, against numbers worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, erf, model, op
from numpy.typing import NDArray

from gelu_deploy.errors import UsageError
from gelu_deploy.flow import Survey, Values, points
from gelu_deploy.results import SurveyedSite

Array = NDArray[Any]


def gelu(x: Expression) -> Expression:
    return op("Gelu", x)


def relu(x: Expression) -> Expression:
    return op("Relu", x)


def surveyed(made: ir.Model, batches: Iterable[Array]) -> list[SurveyedSite]:
    places, _ = points(made)
    with Survey(made, {}, places) as run:
        for batch in batches:
            run.add({"x": batch})
        return run.sites()


def one(formula: Callable[[Expression], Expression], *batches: Array) -> SurveyedSite:
    (site,) = surveyed(model(formula, shape=("n", *batches[0].shape[1:])), batches)
    return site


BY_HAND = np.array([[-3, -1, 0, 2], [-4, 1, 0, 3]], np.float32)


def test_a_gelu_by_hand() -> None:
    site = one(gelu, BY_HAND)
    answers = np.array([-0.00404969, -0.15865525, 0, 1.95449974, -0.00012669, 0.84134475, 0, 2.9959503])
    exact = {"values", "not_finite", "channels", "dead", "saturated", "codes_below_zero", "activation"}
    assert {name: site[name] for name in exact} == {  # type: ignore[literal-required]
        "values": 8,
        "not_finite": 0,
        "channels": 4,
        "dead": 2,
        "saturated": 0,
        "codes_below_zero": 13,
        "activation": "erf",
    }
    near = {
        "minimum": -4,
        "maximum": 3,
        "mean": -0.25,
        "std": np.std(BY_HAND),
        "output_minimum": answers.min(),
        "output_maximum": answers.max(),
        "gain": np.sqrt(40 / np.square(answers).sum()),
        "effective": 4 / 8,
        "negative": 3 / 8,
        "vanishing": 1 / 8,
    }
    assert {name: site[name] for name in near} == pytest.approx(near, rel=1e-5)  # type: ignore[literal-required]
    assert site["outlier_ratio"] == pytest.approx(1, rel=4e-3)
    assert site["quantiles"]["0.5"] == 0
    assert json.loads(json.dumps(site)) == site


def test_a_relu_by_hand() -> None:
    site = one(relu, BY_HAND)
    assert (site["activation"], site["dead"], site["saturated"], site["codes_below_zero"]) == ("relu", 2, 1, 0)
    assert (site["effective"], site["negative"], site["vanishing"]) == (3 / 8, 0, 5 / 8)
    assert site["gain"] == pytest.approx(np.sqrt(40 / 14))


def test_batches_of_any_size_give_the_same_answer() -> None:
    x = np.random.default_rng(0).normal(-1, 2, (1000, 6)).astype(np.float32)
    whole = one(gelu, x)
    for cuts in ([1, 2, 500, 900], list(range(100, 1000, 100))):
        parts = one(gelu, *np.split(x, cuts))
        assert parts.pop("mean") == pytest.approx(whole["mean"], rel=1e-12)  # type: ignore[misc]
        assert parts.pop("std") == pytest.approx(whole["std"], rel=1e-12)  # type: ignore[misc]
        assert parts.pop("gain") == pytest.approx(whole["gain"], rel=1e-12)  # type: ignore[misc]
        assert parts == {name: whole[name] for name in parts}  # type: ignore[literal-required]


@pytest.mark.parametrize(("mean", "std", "effective"), [(0, 1, 0.98), (-0.5, 1.5, 0.92), (-2, 2, 0.63), (-3, 2, 0.43)])
def test_how_much_acts_depends_on_where_the_inputs_lie(mean: float, std: float, effective: float) -> None:
    x = np.random.default_rng(1).normal(mean, std, (100_000, 1)).astype(np.float32)
    assert one(gelu, x)["effective"] == pytest.approx(effective, abs=0.01)


def test_the_gain_of_normal_inputs_is_the_known_one() -> None:
    x = np.random.default_rng(2).normal(size=(400_000, 1)).astype(np.float32)
    assert one(gelu, x)["gain"] == pytest.approx(1.5335, abs=5e-3)
    assert one(relu, x)["gain"] == pytest.approx(np.sqrt(2), abs=5e-3)


def test_quantiles_are_numpys_to_within_the_width_of_a_bin() -> None:
    random = np.random.default_rng(3)
    x = np.concatenate([random.normal(size=4000), random.normal(size=500) * 1e-30, random.normal(size=500) * 1e30])
    x = x.astype(np.float32)
    counted = Values()
    for part in np.split(x, 10):
        counted.add(part)
    shares = (0.001, 0.01, 0.3, 0.5, 0.9, 1.0)
    expected = np.quantile(x, shares, method="inverted_cdf")
    np.testing.assert_allclose(counted.quantiles(shares), expected, rtol=4e-3)
    np.testing.assert_allclose(counted.magnitude(0.99), np.quantile(np.abs(x), 0.99, method="inverted_cdf"), rtol=4e-3)


def test_channels_lie_behind_a_convolution_in_the_second_axis() -> None:
    weight = np.ones((3, 1, 1, 1), np.float32) * np.array([1, -9, 0], np.float32).reshape(3, 1, 1, 1)
    bias = np.zeros(3, np.float32)

    def network(x: Expression) -> Expression:
        return relu(gelu(op("Conv", x, weight, bias)) + 0.0)

    x = np.full((2, 1, 4, 5), 4, np.float32)
    first, second = surveyed(model(network, shape=("n", 1, 4, 5)), [x])
    assert (first["channels"], first["dead"], first["saturated"]) == (3, 2, 1)
    assert second["activation"] == "relu"
    assert one(gelu, x[:, 0])["channels"] == 5


def test_a_written_out_gelu_with_its_bias_inside_a_fused_one() -> None:
    x = BY_HAND
    spelled = one(lambda e: e * 0.5 * (1 + erf(e / 1.41421356)), x)
    fused = one(lambda e: op("BiasGelu", e, np.ones(4, np.float32), domain="com.microsoft"), x - 1)
    for name in ("minimum", "maximum", "effective", "negative", "dead", "codes_below_zero"):
        assert spelled[name] == fused[name]


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    x = np.array([[1, np.nan], [np.inf, 2]], np.float32)
    site = one(gelu, x)
    assert (site["values"], site["not_finite"], site["minimum"], site["maximum"]) == (2, 2, 1, 2)
    nothing = one(gelu, np.full((1, 2), np.nan, np.float32))
    assert nothing["values"] == 0
    assert all(np.isnan(nothing[name]) for name in ("mean", "gain", "effective", "vanishing", "outlier_ratio"))


def test_sites_come_in_the_order_of_the_graph_and_those_in_bodies_are_counted() -> None:
    places, hidden = points(model(lambda x: gelu(relu(gelu(relu(x))))))
    assert [place.activation for place in places] == ["relu", "erf", "relu", "erf"]
    assert hidden == 0
    assert points(model(gelu, place="if")) == ([], 1)


def test_a_batch_that_does_not_fit_is_told() -> None:
    made = model(gelu, shape=("n", 4))
    with Survey(made, {}, points(made)[0]) as run, pytest.raises(UsageError, match="expected n x 4"):
        run.add({"x": np.zeros((2, 5), np.float32)})

"""What counts as a GELU: every real spelling, and nothing that only looks like one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, Formula, Home, erf, model
from spellings import NEGATIVES, POSITIVES, R2, Spelling

from gelu_deploy import gelu
from gelu_deploy.graph.recognize import find


def ids(case: object) -> str | None:
    return case.name if isinstance(case, Spelling) else case if isinstance(case, str) else None


@pytest.mark.parametrize("home", ["initializer", "constant"])
@pytest.mark.parametrize("spelling", POSITIVES, ids=ids)
def test_every_spelling_is_found_once_with_its_form_and_input(spelling: Spelling, home: Home) -> None:
    found = find(model(spelling.formula, home=home))
    assert [(site.form, site.source.name, site.output.name) for site in found.sites] == [(spelling.form, "x", "y")]
    assert found.misses == ()
    assert found.sites[0].error < 5e-5


@pytest.mark.parametrize("spelling", [s for s in POSITIVES if s.form == "sigmoid"], ids=ids)
def test_slope_is_the_one_in_the_file(spelling: Spelling) -> None:
    (site,) = find(model(spelling.formula)).sites
    assert site.alpha == min(gelu.FORMS["sigmoid"].alphas, key=lambda known: abs(known - _number(spelling.name)))


def _number(name: str) -> float:
    return {"47 1.7": 1.7, "47 bfloat16": 1.703125, "47 float16": 1.70214844}.get(name, 1.702)


@pytest.mark.parametrize("spelling", POSITIVES, ids=ids)
def test_exposed_inner_values_and_rank_one_constants_change_nothing(spelling: Spelling) -> None:
    assert [site.form for site in find(model(spelling.formula, expose=True, rank=1)).sites] == [spelling.form]


@pytest.mark.parametrize(("name", "formula"), NEGATIVES, ids=ids)
def test_look_alikes_are_left_alone(name: str, formula: Formula) -> None:
    assert find(model(formula)).sites == (), name


def test_near_miss_says_how_far_off_it_is() -> None:
    (miss,) = find(model(dict(NEGATIVES)["wrong root"])).misses
    assert miss.form == "erf"
    assert miss.error == pytest.approx(5.9e-5, rel=0.05)
    assert "off by 5.9e-05" in miss.reason


def test_another_slope_is_named_and_left_alone() -> None:
    for slope, formula in ((1.0, dict(NEGATIVES)["48 silu"]), (1.69, dict(NEGATIVES)["swish 1.69"])):
        found = find(model(formula))
        assert not found.sites
        assert f"σ({slope:g}·x)" in found.misses[0].reason


def test_a_constant_that_a_caller_may_override_is_no_constant() -> None:
    overridable = model(lambda x: 0.5 * x * (1 + erf(x / R2)), home="overridable")
    assert not find(overridable).sites
    overridable.ir_version = 3  # before version 4 every initializer had to be listed among the inputs
    assert len(find(overridable).sites) == 1


def test_a_constant_of_higher_rank_would_change_the_rank_of_the_output() -> None:
    formula: Formula = lambda x: 0.5 * x * (1 + erf(x / R2))  # noqa: E731  # a formula like all others here
    found = find(model(formula, shape=(4, 8), rank=3))
    assert not found.sites
    assert "shape" in found.misses[0].reason
    assert len(find(model(formula, shape=(2, 4, 8), rank=3)).sites) == 1


def test_a_uniform_tensor_of_full_size_is_a_number() -> None:
    ones = np.ones((2, 4, 8), np.float32)
    assert len(find(model(lambda x: 0.5 * x * (ones + erf(x / R2)), shape=(2, 4, 8))).sites) == 1
    assert not find(model(lambda x: 0.5 * x * (ones + erf(x / R2)), shape=(1, 4, 8))).sites


def test_sites_in_a_row_and_sites_that_share_inner_values() -> None:
    def twice(x: Expression) -> Expression:
        y = 0.5 * x * (1 + erf(x / R2))
        return 0.5 * y * (1 + erf(y / R2))

    assert len(find(model(twice)).sites) == 2

    def shared(x: Expression) -> Expression:
        e, h = erf(x / R2) + 1, 0.5 * x
        return (h * e) + h * (x * (0.5 * e))

    assert len(find(model(shared)).sites) == 2


def test_a_long_chain_before_and_after_does_not_recurse_or_confuse() -> None:
    def long(x: Expression) -> Expression:
        for _ in range(3000):
            x = x + 0.001
        y = 0.5 * x * (1 + erf(x / R2))
        for _ in range(3000):
            y = y * 1.001
        return y

    (site,) = find(model(long)).sites
    assert site.form == "erf"
    assert isinstance(site.source, ir.Value)

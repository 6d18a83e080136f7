"""Budgets: what they may look like, when each holds, and what is said then."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gelu_deploy.comparison.gates import (
    AGREEMENT,
    CANNOT_TELL,
    DROP,
    FAIL,
    MEMORY,
    P99,
    PASS,
    SIZE,
    Measured,
    budgets,
    decide,
    exact,
    hold,
)
from gelu_deploy.errors import UsageError
from gelu_deploy.options import CompareOptions
from gelu_deploy.results import DifferenceResult, Estimate, GateResult
from gelu_deploy.scoring.metric import Metric, named

TOP1 = named("top1")
PERPLEXITY = named("perplexity")


def asked(metric: Metric = TOP1, **options: Any) -> dict[str, Any]:
    return {gate: one.limit for gate, one in budgets(CompareOptions(data="d.npz", **options), metric).items()}


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high)


def held(gate: str, measured: Estimate | None, more_rows: int = 0, lost: int = 20, **options: Any) -> GateResult:
    loss = measured or exact(0)
    difference = DifferenceResult(against="float", loss=loss, lost=lost, gained=0, p=1.0, more_rows=more_rows)
    estimates = {} if measured is None else {gate: measured}
    one = Measured("int8", estimates=estimates, difference=difference, rows=300, runs=50)
    metric = options.pop("metric", TOP1)
    (found,) = hold(one, budgets(CompareOptions(data="d.npz", **options), metric), 0.95)
    return found


def test_without_budgets_there_is_no_gate() -> None:
    assert asked() == {}


def test_budgets_are_read_in_the_units_that_people_write() -> None:
    assert asked(max_drop="0.5%") == {DROP: 0.005}
    assert asked(max_drop="0.005") == {DROP: 0.005}
    assert asked(PERPLEXITY, max_drop="0.3") == {DROP: 0.3}
    assert asked(min_agreement="99%") == asked(min_agreement="0.99") == {AGREEMENT: 0.99}
    assert asked(max_p99=2.5) == {P99: 2.5}
    assert asked(max_size="10MB", max_memory="1.5 GiB") == {SIZE: 1e7, MEMORY: 1.5 * 2**30}
    assert asked(max_size="900") == asked(max_size="0.9kB") == asked(max_size="900B") == {SIZE: 900}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_drop": "little"}, "--max-drop little: expected points"),
        ({"max_drop": "0%"}, "--max-drop 0%: no number of rows can tell"),
        ({"min_agreement": "100%"}, "--min-agreement 100%: expected a share of the answers"),
        ({"max_drop": "-1%"}, "--max-drop -1%: expected points"),
        ({"min_agreement": "most"}, "--min-agreement most: expected a share"),
        ({"min_agreement": "990"}, "--min-agreement 990: expected a share"),
        ({"max_p99": 0.0}, "--max-p99 0: expected milliseconds"),
        ({"max_p99": math.nan}, "--max-p99 nan: expected milliseconds"),
        ({"max_size": "10 parsecs"}, "--max-size 10 parsecs: expected a size"),
        ({"max_size": "10mb"}, "--max-size 10mb: expected a size"),
        ({"max_memory": "1.2.3MB"}, "--max-memory 1.2.3MB: expected a size"),
        ({"max_memory": "0MB"}, "--max-memory 0MB: expected a size"),
    ],
)
def test_what_is_no_budget_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        asked(**options)
    assert str(error.value).startswith(message)


def test_a_share_is_no_budget_for_what_is_no_share() -> None:
    with pytest.raises(UsageError, match=r"--max-drop 0\.5%: expected a number, as perplexity is no share"):
        asked(PERPLEXITY, max_drop="0.5%")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.001, 0.005, PASS), (-0.001, 0.006, CANNOT_TELL), (0.005, 0.01, CANNOT_TELL), (0.006, 0.01, FAIL)],
)
def test_a_sampled_number_is_judged_by_its_whole_interval(low: float, high: float, verdict: str) -> None:
    found = held(DROP, estimate((low + high) / 2, low, high), max_drop="0.5%")
    assert (found["verdict"], found["limit"]) == (verdict, 0.005)


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.99, 1.0, PASS), (0.985, 0.995, CANNOT_TELL), (0.97, 0.989, FAIL)]
)
def test_a_least_budget_is_held_from_below(low: float, high: float, verdict: str) -> None:
    assert held(AGREEMENT, estimate((low + high) / 2, low, high), min_agreement="99%")["verdict"] == verdict


def test_what_is_no_number_fails_and_what_was_not_measured_cannot_be_told() -> None:
    assert held(DROP, exact(math.nan), max_drop="0.5%")["verdict"] == FAIL
    found = held(DROP, None, max_drop="0.5%")
    assert (found["verdict"], found["reason"]) == (CANNOT_TELL, "it could not be measured")


def test_what_it_takes_to_tell_is_said() -> None:
    few = held(DROP, estimate(0.001, -0.008, 0.01), more_rows=460, max_drop="0.5%")
    assert few["reason"] == (
        "0.10 (-0.80 to 1.00) points lost, at most 0.50 allowed: 300 rows are too few, about 460 more would narrow it "
        "down to the budget"
    )
    unsure = held(DROP, estimate(0.001, -0.008, 0.01), more_rows=460, lost=14, max_drop="0.5%")
    assert "very roughly 460 more" in unsure["reason"]
    near = held(DROP, estimate(0.004, 0.002, 0.006), max_drop="0.5%")
    assert near["reason"].endswith("what is lost is so near to the budget that 300 rows cannot tell them apart")
    late = held(P99, estimate(3.1, 2.5, math.inf), max_p99=4.0)
    assert late["reason"] == (
        "3.1 (2.5 to inf) ms, at most 4 allowed: 50 runs are too few, 368 at least; --time-budget gives more time for "
        "them"
    )


def test_rows_that_an_agreement_needs_are_those_from_which_wilson_s_interval_is_within() -> None:
    """With every answer the same, 1 / (1 + k²/n) is the lower end: above 0.99 from n = 99 k² = 381 on."""
    found = held(AGREEMENT, estimate(1.0, 0.9874, 1.0), min_agreement="99%")
    assert found["reason"] == (
        "100.00 (98.74 to 100.00) % of answers the same, at least 99.00 allowed: 300 rows are too few, about 81 more "
        "would tell if the share stays the same"
    )
    near = held(AGREEMENT, estimate(0.99, 0.97, 0.995), min_agreement="99%")
    assert near["reason"].endswith("the share is so near to the budget that 300 rows cannot tell them apart")


def test_exact_numbers_have_no_interval() -> None:
    assert held(SIZE, exact(2.5e6), max_size="10MB")["reason"] == "2.5 MB, at most 10 allowed"
    assert held(MEMORY, exact(12e6), max_memory="10MB")["verdict"] == FAIL


def test_what_could_not_be_made_fails_whatever_was_asked_for() -> None:
    (found,) = hold(Measured("int8", failure="nothing to quantize"), {}, 0.95)
    assert (found["gate"], found["verdict"], found["reason"]) == ("quantize", FAIL, "nothing to quantize")


def gate(variant: str, verdict: str, name: str = SIZE) -> GateResult:
    return GateResult(variant=variant, gate=name, limit=1, measured=exact(1), verdict=verdict, reason=f"{name} said")


def test_the_fastest_that_holds_all_may_ship() -> None:
    several = [Measured("slow", p50=3), Measured("fast", p50=1), Measured("faster", p50=0.5)]
    gates = [gate("slow", PASS), gate("fast", PASS), gate("faster", FAIL)]
    assert decide(several, gates) == ("fast", PASS, "fast holds max-size: max-size said")


def test_what_cannot_be_told_comes_before_what_fails() -> None:
    several = [Measured("open", p50=3), Measured("failed", p50=1)]
    gates = [
        gate("open", CANNOT_TELL),
        gate("open", CANNOT_TELL, DROP),
        gate("failed", FAIL),
        gate("failed", PASS, DROP),
    ]
    found = decide(several, gates)
    assert found == ("open", CANNOT_TELL, "open cannot be told yet: max-size: max-size said; max-drop: max-drop said")


def test_of_those_that_fail_the_one_with_the_fewest_is_nearest() -> None:
    several = [Measured("two", p50=1), Measured("one", p50=3), Measured("none", failure="no", p50=math.inf)]
    gates = [gate("two", FAIL), gate("two", FAIL, DROP), gate("one", FAIL), gate("one", CANNOT_TELL, DROP)]
    found = decide(several, [*gates, gate("none", FAIL, "quantize")])
    assert found == ("one", FAIL, "one fails max-size: max-size said; not to be told yet: max-drop: max-drop said")


def test_without_a_budget_nothing_is_decided_and_the_fastest_is_named() -> None:
    several = [Measured("int8", p50=2), Measured("int8 tanh", p50=1)]
    assert decide(several, []) == (
        "int8 tanh",
        PASS,
        "no budget was given, so that nothing is decided; int8 tanh is the fastest of 2",
    )
    assert decide(several[:1], [])[2].endswith("nothing is decided; there is int8")


def test_what_could_not_be_made_is_named_only_where_nothing_could() -> None:
    several = [Measured("int8", failure="no layer")]
    assert decide(several, [gate("int8", FAIL, "quantize")]) == ("int8", FAIL, "int8 fails quantize: quantize said")

"""What is taken: beyond noise twice, kind by kind where that pays, and nothing that was not allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from choosing_networks import both, maker, pipeline, unfusable

from gelu_deploy.choosing import deciding
from gelu_deploy.choosing.candidates import Candidate, Maker
from gelu_deploy.choosing.deciding import VARIATIONS, Decision, decide
from gelu_deploy.choosing.racing import ROUNDS, Entry, Race
from gelu_deploy.results import Spread
from gelu_deploy.timing.interleaved import Timing

Races = list[list[str]]
Pace = Callable[[Candidate], float | Sequence[float]]
Decide = Callable[[Maker, Pace], Decision]


@pytest.fixture
def races() -> Races:
    """Who was in each race."""
    return []


@pytest.fixture
def decided(races: Races, monkeypatch: pytest.MonkeyPatch) -> Decide:
    """The decision when candidates take what is said and equals differ by a hundredth."""

    def call(made: Maker, pace: Pace) -> Decision:
        def race(candidates: Sequence[Candidate], _feeds: object, _provider: str) -> Race:
            races.append([one.name for one in candidates])
            return Race([entry(one, pace(one)) for one in candidates], Spread(median=1.0, low=0.99, high=1.01))

        monkeypatch.setattr(deciding, "race", race)
        return decide(made, made.competitors())

    return call


def entry(one: Candidate, took: float | Sequence[float]) -> Entry:
    rounds = [took] * ROUNDS if isinstance(took, (int, float)) else took
    return Entry(one, Timing(one.name, tuple((each,) for each in rounds), {}, 0, 0))


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """One exact GELU, which nothing but a contrib operator fuses; no other form is allowed."""
    return maker(pipeline(unfusable), tmp_path_factory.mktemp("single"), target="ort-cpu")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Two kinds of GELU, in any form."""
    return maker(pipeline(both), tmp_path_factory.mktemp("two"), target="ort-cpu", max_form_error=1.0)


def test_without_a_gain_what_keep_writes_stays(single: Maker, decided: Decide, races: Races) -> None:
    found = decided(single, lambda _: 10.0)
    assert (found.chosen.name, found.tried, found.offer) == ("erf as ops", None, None)
    assert len(races) == 1
    assert [one.name for one in found.timings()] == races[0]


def test_a_gain_is_measured_again_and_taken(single: Maker, decided: Decide, races: Races) -> None:
    found = decided(single, lambda one: 5.0 if one.name == "erf as contrib" else 10.0)
    assert found.chosen.name == "erf as contrib"
    assert found.chosen is found.tried
    assert found.ratio["median"] == 0.5
    assert races[1:] == [["erf as ops", "erf as contrib"]]


def test_a_gain_that_is_not_borne_out_is_not_taken(single: Maker, decided: Decide, races: Races) -> None:
    found = decided(single, lambda one: 5.0 if len(races) == 1 and one.name == "erf as contrib" else 10.0)
    assert found.chosen.name == "erf as ops"
    assert found.tried is not None
    assert found.tried.name == "erf as contrib"
    assert found.ratio["median"] == 1.0


def test_another_form_is_offered_and_only_a_budget_lets_it_be_taken(
    single: Maker, tmp_path: Path, decided: Decide
) -> None:
    took = {"erf": 10.0, "tanh": 2.0, "sigmoid": 1.98}  # hardly faster than tanh and much farther off
    closed = decided(single, lambda one: took[one.forms[0]])
    assert closed.chosen.name == "erf as ops"
    assert closed.offer is not None
    assert closed.offer.name == "tanh as ops"
    opened = decided(
        maker(pipeline(unfusable), tmp_path, target="ort-cpu", max_form_error=1e-3), lambda one: took[one.forms[0]]
    )
    assert opened.chosen.name == "tanh as ops"
    assert opened.offer is None


def test_a_single_way_is_not_timed(single: Maker, races: Races) -> None:
    assert decide(single, [single.base]) == Decision(single.base)
    assert races == []


def costs(made: Maker, wide: dict[str, float], narrow: dict[str, float]) -> Pace:
    """10 ms and what the two kinds of GELU take more or less when they are written so: ``tanh contrib``."""
    kinds = dict(zip(made.groups(), (wide, narrow), strict=True))

    def pace(one: Candidate) -> float:
        said = {name: f"{plan.form} {plan.spelling}" for name, plan in one.plans.items()}
        return 10.0 + sum(cost.get(said[group[0]], 0.0) for group, cost in kinds.items())

    return pace


def test_each_kind_gets_what_pays_there(two: Maker, decided: Decide, races: Races) -> None:
    wide, narrow = (group[0] for group in two.groups())
    found = decided(two, costs(two, {"tanh contrib": 2.0, "tanh ops": 2.0}, {"tanh contrib": -2.0}))
    assert {name: plan.form for name, plan in found.chosen.plans.items()} == {wide: "erf", narrow: "tanh"}
    assert found.chosen.name == "1 erf as ops, 1 tanh as contrib"
    assert found.ratio["median"] == 0.8
    assert [len(one) for one in races] == [len(races[0]), VARIATIONS + 1, 2]
    assert found.chosen in found.timings()


def test_a_kind_whose_other_form_does_not_pay_keeps_its_own(two: Maker, decided: Decide) -> None:
    wide, narrow = (group[0] for group in two.groups())
    found = decided(two, costs(two, {}, {"tanh contrib": -4.0}))
    assert {name: plan.form for name, plan in found.chosen.plans.items()} == {wide: "erf", narrow: "tanh"}


def test_kinds_that_only_pay_together_stay_together(two: Maker, decided: Decide) -> None:
    found = decided(two, costs(two, {"tanh contrib": -0.15}, {"tanh contrib": -0.15}))
    assert found.chosen.name == "tanh as contrib"


def test_a_mixture_beyond_the_budget_is_not_taken(
    tmp_path: Path, decided: Decide, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = maker(pipeline(both), tmp_path, target="ort-cpu", max_form_error=1.0)
    made.competitors()
    monkeypatch.setattr(Maker, "_needs", lambda *_: "--max-form-error 2")
    found = decided(made, costs(made, {"tanh contrib": 2.0, "tanh ops": 2.0}, {"tanh contrib": -2.0}))
    assert found.chosen is made.base

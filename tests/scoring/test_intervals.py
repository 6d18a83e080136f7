"""How often intervals hold what is true, and how often so many rows more is right: on populations that are known.

Right or wrong rows are counted out exactly, with every pair of counts and its probability; all else is sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from populations import (
    CONFIDENCES,
    Population,
    characters,
    coverage,
    exact_coverage,
    exact_share_coverage,
    overlaps,
    perplexity,
    shares,
    tokens,
    told,
    twin_coverage,
)

LOSSES = [
    (100, 0.005, 0.0),
    (100, 0.05, 0.0),
    (200, 0.05, 0.05),
    (300, 0.02, 0.005),
    (300, 0.05, 0.0),
    (1000, 0.01, 0.0),
]


def allowed(nominal: float, changes: float) -> tuple[float, float]:
    """Share of intervals of a loss that must hold: a point less than nominal at worst, more where few rows changed."""
    more = 0.025 if changes >= 20 else 0.045 if changes >= 10 else 1 - nominal
    return nominal - 0.01, nominal + more


@pytest.mark.parametrize("nominal", CONFIDENCES)
@pytest.mark.parametrize(("count", "lost", "gained"), LOSSES)
def test_intervals_of_a_loss_of_rows_hold_at_their_rate(count: int, lost: float, gained: float, nominal: float) -> None:
    low, high = allowed(nominal, count * (lost + gained))
    assert low <= exact_coverage(count, lost, gained, nominal) <= high


@pytest.mark.parametrize("nominal", CONFIDENCES)
@pytest.mark.parametrize(("count", "accuracy"), [(100, 0.5), (100, 0.9), (300, 0.95), (300, 0.7), (1000, 0.98)])
def test_intervals_of_an_accuracy_hold_at_their_rate(count: int, accuracy: float, nominal: float) -> None:
    assert exact_share_coverage(count, accuracy, nominal) == pytest.approx(nominal, abs=0.035)  # counts are steps


DRAWS = 400
Sampled = tuple[Callable[..., Population], tuple[float, ...], int]
SAMPLED: list[Sampled] = [
    (shares, (0.5, 0.05, 0.05), 5000),
    (shares, (0.9, 0.002, 0.003), 5000),
    (shares, (0.99, 0.01, 0.0), 2000),
    (tokens, (0.9, 0.02), 100),
    (tokens, (0.98, 0.01), 300),
    (perplexity, (0.01,), 100),
    (characters, (0.02, 0.05, 0.75), 100),
    (characters, (0.02, 0.05, 0.75), 500),
    (characters, (0.05, 0.3, 0.6), 100),
    (overlaps, (0.05,), 400),
    (overlaps, (1.0,), 100),
]


def sure(nominal: float) -> float:
    """Three standard errors of a share of so many draws."""
    return float(3 * np.sqrt(nominal * (1 - nominal) / DRAWS))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "how", "count"), SAMPLED)
def test_intervals_on_samples_hold_at_their_rate(
    make: Callable[..., Population], how: tuple[float, ...], count: int
) -> None:
    population = make(*how)
    for nominal, (score, loss) in zip(CONFIDENCES, coverage(population, count, DRAWS), strict=True):
        low, high = allowed(nominal, count * population.changed)
        assert low - 0.01 - sure(nominal) <= loss <= high + sure(nominal)
        assert score == pytest.approx(nominal, abs=0.03 + sure(nominal))


@pytest.mark.slow
@pytest.mark.parametrize("nominal", CONFIDENCES)
def test_intervals_of_a_difference_of_losses_hold_at_their_rate(nominal: float) -> None:
    held = twin_coverage(shares(0.9, 0.03, 0.01), shares(0.88, 0.01, 0.01), 300, nominal, DRAWS)
    low, high = allowed(nominal, 18)
    assert low - sure(nominal) <= held <= high + sure(nominal)


Asked = tuple[Callable[..., Population], tuple[float, ...], int, float, float]
TOLD: list[Asked] = [
    (shares, (0.9, 0.02, 0.01), 500, 0.005, 0.85),
    (shares, (0.9, 0.02, 0.01), 1000, 0.005, 0.95),
]
TOLD_SLOWLY: list[Asked] = [
    (shares, (0.9, 0.02, 0.01), 100, 0.01, 0.5),
    (shares, (0.95, 0.01, 0.0), 500, 0.004, 0.75),
    (tokens, (0.9, 0.02), 400, 0.002, 0.9),
    (perplexity, (0.01,), 300, 0.03, 0.85),
    (characters, (0.05, 0.3, 0.6), 200, 0.001, 0.85),
    (overlaps, (1.0,), 100, 0.002, 0.95),
]


@pytest.mark.parametrize(
    ("make", "how", "count", "budget", "least"),
    [*TOLD, *(pytest.param(*asked, marks=pytest.mark.slow) for asked in TOLD_SLOWLY)],
)
def test_so_many_rows_more_is_right_within_half_as_many_again(
    make: Callable[..., Population], how: tuple[float, ...], count: int, budget: float, least: float
) -> None:
    assert told(make(*how), count, 0.95, budget, 150).right >= least


def table(draws: int) -> Iterator[str]:
    """What these tests measure, in Markdown, with more draws: ``print("\\n".join(table(2000)))``."""
    yield "| rows scored | rows | changed | score within, 90 / 95 / 99 % | loss within, 90 / 95 / 99 % |"
    yield "| --- | --- | --- | --- | --- |"
    for count, lost, gained in LOSSES:
        held = " / ".join(f"{exact_coverage(count, lost, gained, nominal):.1%}" for nominal in CONFIDENCES)
        yield f"| top-1, {lost:.1%} lost, {gained:.1%} gained | {count} | {count * (lost + gained):.0f} | | {held} |"
    for make, how, count in SAMPLED:
        population = make(*how)
        shown = (" / ".join(f"{one:.1%}" for one in column) for column in coverage(population, count, draws).T)
        yield f"| {population.name} | {count} | {count * population.changed:.0f} | {' | '.join(shown)} |"
    yield ""
    yield "| rows scored | budget | rows | changed, as equal ones | rows needed, told | right within 1.5 |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for asked, given, count, budget, _ in [*TOLD, *TOLD_SLOWLY]:
        population, found = asked(*given), told(asked(*given), count, 0.95, budget, draws)
        counts = f"{count} | {found.changes:.0f} | {found.total:.0f}"
        yield f"| {population.name} | {budget:g} | {counts} | {found.right:.0%} of {found.runs} |"

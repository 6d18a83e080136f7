"""What many runs say of a time, and how many are needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gelu_deploy.comparison import latency
from gelu_deploy.comparison.latency import enough, latencies, quantile
from gelu_deploy.timing.interleaved import Timing, Variant


@pytest.mark.parametrize(("q", "rows"), [(0.5, 7), (0.5, 40), (0.99, 400), (0.99, 1500)])
def test_the_interval_holds_the_true_quantile_as_often_as_it_says(q: float, rows: int) -> None:
    random = np.random.default_rng(0)
    found = [quantile(random.exponential(size=rows), q, 0.9) for _ in range(600)]
    true = -math.log(1 - q)
    within = sum(one["low"] <= true <= one["high"] for one in found) / len(found)
    assert 0.88 <= within <= 0.995
    assert all(one["low"] <= one["value"] <= one["high"] for one in found)


@pytest.mark.parametrize(("q", "confidence"), [(0.99, 0.95), (0.5, 0.95), (0.99, 0.8)])
def test_from_enough_runs_on_there_is_an_upper_bound(q: float, confidence: float) -> None:
    needed = enough(q, confidence)
    assert quantile(np.arange(needed), q, confidence)["high"] == needed - 1
    assert quantile(np.arange(needed - 1), q, confidence)["high"] == math.inf


def test_nothing_bounds_a_quantile_from_a_single_run() -> None:
    assert quantile(np.ones(1), 0.5, 0.95) == {"value": 1.0, "low": -math.inf, "high": math.inf}


def test_times_are_of_all_runs_and_ratios_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dict[str, Any]()

    def timed(variants: Sequence[Variant], feeds: Mapping[str, Any], **how: Any) -> list[Timing]:
        asked.update(how)
        each = {"float": 2.0, "int8": 1.0}
        rounds = {name: tuple((time + turn,) * 100 for turn in range(7)) for name, time in each.items()}
        return [Timing(one.name, rounds[one.name], dict(feeds), 5_000_000, 0) for one in variants]

    monkeypatch.setattr(latency, "timed", timed)
    variants = [Variant(name, "", {}) for name in ("float", "int8")]
    found = latencies(variants, {}, "float", 14.0, 0.95)
    assert asked == {"rounds": 7, "runs": 53, "seconds": 1.0}
    assert found["int8"].memory == 5_000_000
    result = found["int8"].result
    assert (result["p50"], result["p90"], result["p99"], result["runs"]) == (4.0, 7.0, 7.0, 700)
    assert found["int8"].high["value"] == result["p99"]
    assert result["ratio"] == {"value": 4 / 5, "low": 1 / 2, "high": 7 / 8}
    assert found["float"].result["ratio"] == {"value": 1.0, "low": 1.0, "high": 1.0}

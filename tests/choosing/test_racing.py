"""When one is faster than another: beyond what equals differ by, and never by the toss of a coin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx_ir as ir
import pytest
from choosing_networks import timer
from graphs import model, op

from gelu_deploy.choosing import racing
from gelu_deploy.choosing.candidates import Candidate
from gelu_deploy.choosing.racing import ROUNDS, Entry, Race, race
from gelu_deploy.results import Spread
from gelu_deploy.timing.interleaved import Timing

QUIET = Spread(median=1.0, low=0.99, high=1.01)


@dataclass(frozen=True)
class Fake:
    """What a race asks of a candidate."""

    name: str
    error: float = 0.0
    file: Path = Path("nowhere.onnx")


def entry(name: str, took: float | Sequence[float], error: float = 0.0) -> Entry:
    rounds = [took] * ROUNDS if isinstance(took, float) else took
    timing = Timing(name, tuple((one,) for one in rounds), {}, 0, 0)
    return Entry(cast("Candidate", Fake(name, error)), timing)


def test_the_same_time_is_no_gain_nor_is_one_within_noise() -> None:
    base, better = entry("base", 10.0), entry("better", 9.0)
    quiet, loud = Race([base, better], QUIET), Race([base, better], Spread(median=1.0, low=0.85, high=1.2))
    assert quiet.beats(better, base)
    assert not quiet.beats(base, base)
    assert not quiet.beats(base, better)
    assert not loud.beats(better, base)
    assert not Race([base, better], Spread(median=1.0, low=1.0, high=1.2)).beats(better, base)


def test_a_gain_in_half_of_the_rounds_is_none() -> None:
    base, lucky = entry("base", 10.0), entry("lucky", [5.0] * 6 + [11.0] * 3)
    assert not Race([base, lucky], QUIET).beats(lucky, base)


def test_coins_do_not_win() -> None:
    random = np.random.default_rng(0)
    won = 0
    for _ in range(400):
        base, again, other = random.lognormal(0, 0.2, (3, ROUNDS)).tolist()
        first, second = entry("base", base), entry("other", other)
        won += Race([first, second], racing.spread(entry("", again).timing, first.timing)).beats(second, first)
    assert won <= 2


def test_a_larger_change_of_the_answers_must_pay_against_a_smaller_one() -> None:
    base, near, far = entry("base", 10.0), entry("near", 8.0, 1e-4), entry("far", 7.9, 1e-2)
    farther = entry("farther", 7.0, 2e-2)
    held = Race([base, farther, far, near], QUIET)
    assert held.cheapest([far, near]) is near
    assert held.cheapest(held.entries) is farther
    assert held.cheapest([]) is base
    assert held.cheapest([far], near) is near


def test_the_fastest_run_of_a_turn_counts_and_the_first_takes_part_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[list[str]]()
    monkeypatch.setattr(racing, "timed", timer(lambda name: {"a": 4.0, "b": 2.0}[name], seen))
    found = race(cast("list[Candidate]", [Fake("a"), Fake("b")]), {}, "cpu")
    assert seen == [["a", "a", "b"]]
    assert [one.timing.median for one in found.entries] == [4.0, 2.0]
    assert found.noise == found.ratio(found.entries[0]) == racing.SAME
    assert found.ratio(found.entries[1])["median"] == 0.5


def test_the_smallest_gain_that_can_be_seen() -> None:
    assert racing.visible(QUIET) == 0.98
    assert racing.visible(Spread(median=1.0, low=0.8, high=1.1)) == 0.8
    assert racing.visible(Spread(median=1.2, low=1.0, high=1.25)) == 0.8


def test_real_files_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "ROUNDS", 3)
    weight = np.eye(256, dtype=np.float32)

    def chain(length: int) -> Any:
        def formula(x: Any) -> Any:
            for _ in range(length):
                x = op("MatMul", x, weight)
            return x

        return formula

    files = {name: tmp_path / f"{name}.onnx" for name in ("long", "short")}
    for (_, file), length in zip(files.items(), (24, 1), strict=True):
        ir.save(model(chain(length), shape=("n", 256)), file)
    long, short = (Fake(name, file=file) for name, file in files.items())
    found = race(cast("list[Candidate]", [long, short]), {"x": np.ones((64, 256), np.float32)}, "cpu")
    assert found.beats(found.entries[1], found.entries[0])
    assert found.cheapest(found.entries) is found.entries[1]

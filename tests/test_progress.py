"""Steps of a verb: told to a listener, and timed without counting anything twice."""

from __future__ import annotations

import time

import pytest

from gelu_deploy.progress import listening, recorded, step


def test_a_listener_hears_each_change_and_only_inside_its_block() -> None:
    heard: list[str] = []
    with listening(heard.append), step("export"):
        with step("simplify"):
            pass
        with step("verify"):
            pass
    with step("unheard"):
        pass
    assert heard == ["export", "simplify", "export", "verify", "export"]


def test_seconds_of_a_step_leave_out_its_inner_ones_and_repeats_add_up() -> None:
    start = time.perf_counter()
    with recorded() as seconds, step("outer"):
        for _ in range(2):
            with step("inner"):
                time.sleep(0.02)
        time.sleep(0.01)
    total = time.perf_counter() - start
    assert seconds["inner"] >= 0.04
    assert 0.01 <= seconds["outer"] <= total - seconds["inner"]


def test_a_step_that_fails_is_timed_and_closed() -> None:
    heard: list[str] = []
    with recorded() as seconds, listening(heard.append), step("outer"):
        with pytest.raises(ValueError, match="broken"), step("inner"):
            raise ValueError("broken")
        with step("next"):
            pass
    assert list(seconds) == ["inner", "next", "outer"]
    assert heard == ["outer", "inner", "outer", "next", "outer"]


def test_steps_of_a_verb_that_another_one_calls_are_among_its_own() -> None:
    with recorded() as outer:
        with step("own"):
            time.sleep(0.01)
        for _ in range(2):
            with step("call"), recorded() as inner, step("own"):
                time.sleep(0.02)
    assert 0.02 <= inner["own"] < 0.04
    assert outer["own"] >= 0.05
    assert outer["call"] < 0.02

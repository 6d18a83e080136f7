"""The race: each engine's own copy, what is left out and why, and one real run of every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gelu_deploy.forms_bench import claims, racing
from gelu_deploy.forms_bench.racing import COMPILED, EAGER, NUMPY, RUNTIME, UNFUSED, Runner
from gelu_deploy.timing.interleaved import Variant

FEW = [one for one in racing.ENGINES[NUMPY](Path()) if one.form in {"copy", "hgelu"}]


def few(_folder: Path) -> Iterator[Runner]:
    return iter(FEW)


def broken(_folder: Path) -> Iterator[Runner]:
    yield Runner("Other", "copy", "", Variant("copy", "gelu_deploy.forms_bench.engines:numpy", {"nonsense": 1}))


def test_numbers_belong_together_and_a_failure_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "ENGINES", {NUMPY: few, "Other": broken})
    rows, notes = racing.race(rounds=2)
    copy, form = rows
    assert (copy["form"], copy["bandwidth"], copy["error"]) == ("copy", 1.0, 0.0)
    assert (form["engine"], form["form"], form["spelling"]) == (NUMPY, "hgelu", "ops")
    assert 0 < form["bandwidth"] < 1
    assert form["error"] < 1e-6
    assert form["nanoseconds"] == pytest.approx(1e6 * form["milliseconds"] / (1024 * 768))
    assert form["memory"] >= 2 * 4 * 1024 * 768
    assert notes[0].startswith("Other is left out: copy could not be timed: TypeError")


@pytest.mark.parametrize(("rounds", "told"), [([1.0, 1.2, 1.4], []), ([1.0, 1.2, 2.0], ["2.0 times its fastest"])])
def test_rounds_that_do_not_agree_are_told(
    rounds: list[float], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(racing, "ENGINES", {NUMPY: few})
    monkeypatch.setattr(racing, "_timed", lambda runners, *_: [{"rounds": rounds} for _ in runners])
    assert [word in note for word, note in zip(told, racing.race()[1], strict=True)] == [True] * len(told)


def test_what_an_engine_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(racing, "find_spec", lambda _: object())
    monkeypatch.setattr("shutil.which", lambda name: name if name == "clang++" else None)
    assert [racing.missing(engine) for engine in (NUMPY, EAGER, COMPILED, RUNTIME)] == [""] * 4
    monkeypatch.setenv("CXX", "nothing++")
    assert "C++ compiler" in racing.missing(COMPILED)
    assert racing.missing(EAGER) == ""
    monkeypatch.setattr(racing, "find_spec", lambda _: None)
    assert "gelu-deploy[torch]" in racing.missing(EAGER)
    assert "gelu-deploy[torch]" in racing.missing(COMPILED)


def test_every_engine_begins_with_its_copy_and_has_every_form(tmp_path: Path) -> None:
    runners = {engine: list(made(tmp_path)) for engine, made in racing.ENGINES.items()}
    for engine, found in runners.items():
        assert found[0].form == "copy"
        missing = set(racing.ALL) - {one.form for one in found}
        assert missing == ({"erfc"} if engine == RUNTIME else set())
        assert len({one.variant.name for one in found if one.engine == engine}) >= len(found) // 2
    unfused = [(one.form, one.spelling) for one in runners[RUNTIME] if one.engine == UNFUSED]
    assert unfused == [("erf", "ops"), ("tanh", "ops"), ("sigmoid", "ops")]
    fused = {(one.form, one.spelling): one.kernels for one in runners[RUNTIME] if one.engine == RUNTIME}
    assert fused["tanh", "ops"] == ("FastGelu",)
    assert len(fused["tanh", "sigmoid3"]) == 6


@pytest.mark.slow
def test_all_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "ALL", {name: racing.ALL[name] for name in ("erf", "tanh")})
    rows, notes = racing.race(rounds=1)
    left_out = [note for note in notes if "left out" in note]
    assert left_out == ([f"{COMPILED} is left out: {racing.missing(COMPILED)}"] if racing.missing(COMPILED) else [])
    assert {row["engine"] for row in rows} >= {NUMPY, EAGER, RUNTIME, UNFUSED}
    assert all(row["error"] < 3e-6 and row["milliseconds"] > 0 for row in rows)
    assert len([one for one in claims.PAIRS if any(row["engine"] == one[0] for row in rows)]) >= 4

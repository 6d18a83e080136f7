"""The three lines: what was taken, what it costs or would bring, what was measured."""

from __future__ import annotations

from typing import Any

from gelu_deploy.choosing.words import lines
from gelu_deploy.results import CandidateResult, ChoiceResult, EffectResult, Spread

GELUS = "4 GELUs of 1 shape"
NOISE = "the same twice: 1.00 (0.98 to 1.02)"
EFFECT = EffectResult(rows=450, sqnr=79.4, agreement=0.9978, kl=1.2e-7)
HEARD = EffectResult(
    rows=9, sqnr=50.0, metric={"name": "top1", "before": 0.98, "after": 0.975, "percent": True}, agreement=1.0, kl=0.0
)


def ratio(median: float) -> Spread:
    return Spread(median=median, low=median - 0.02, high=median + 0.02)


def row(form: str, took: float, error: float = 0.0, needs: str = "", **more: Any) -> CandidateResult:
    found = CandidateResult(
        name=f"{form} as ops",
        forms=[form],
        kernels=["Gelu"],
        error=error,
        milliseconds=took,
        ratio=ratio(took),
        gains=took < 0.97,
        needs=needs,
    )
    if more:
        found["effect"] = more["effect"]
    return found


def told(*candidates: CandidateResult, **more: Any) -> list[str]:
    result: dict[str, Any] = {
        "lines": [],
        "sites": {},
        "own": "erf as ops",
        "chosen": "erf as ops",
        "tried": "",
        "ratio": ratio(0.8),
        "offer": "",
        "noise": ratio(1.0),
        "candidates": [row("erf", 1.0), *candidates] if candidates else [],
        "gelus": 4,
        "shapes": 1,
        "budget": None,
        "data": "",
        "feeds": {"x": "2x8:float32"},
        "rounds": 9,
        "provider": "cpu",
        "machine": {"threads": "2"},
        "cached": False,
        **more,
    }
    return lines(ChoiceResult(**result))  # type: ignore[typeddict-item]  # every key is there


def test_nothing_gained() -> None:
    assert told(row("tanh", 0.99, 6e-4), row("sigmoid", 0.995, 4e-2), budget=1e-1) == [
        "keeps erf as ops: nothing gained beyond noise; best other: tanh as ops, 0.99 of its time (0.97 to 1.01)",
        "--max-form-error 0.1: the form stays",
        f"measured: 3 ways to write {GELUS}, 9 rounds in turns, cpu, 2 threads, with x 2x8:float32; {NOISE}",
    ]


def test_nothing_allowed_and_something_to_gain() -> None:
    taken, price, _ = told(row("tanh", 0.8, 6.1e-4, "--max-form-error 7e-4"), offer="tanh as ops")
    assert taken == "keeps erf as ops: no other way that is allowed becomes other kernels here"
    assert price == (
        "no --max-form-error: the form stays; with --max-form-error 7e-4: tanh as ops, 0.80 of its time "
        "(0.78 to 0.82); outputs change by 6.1e-4 at most; no --data, so that nothing is known of the answers on real "
        "rows"
    )
    closed = told(row("tanh", 1.1, 6.1e-4, "--max-form-error 7e-4"))[1]
    assert closed == "no --max-form-error: the form stays, and what is not allowed would gain nothing beyond noise"


def test_another_form_taken_with_its_effect() -> None:
    data = {"chosen": "tanh as ops", "tried": "tanh as ops", "budget": 1e-3, "data": "d.npz"}
    taken, price, _ = told(row("tanh", 0.81, 6.1e-4, effect=EFFECT), **data)
    assert taken == "tanh as ops in the place of erf as ops: 0.80 of its time (0.78 to 0.82)"
    assert price == (
        "--max-form-error 0.001: outputs change by 6.1e-4 at most; agreement 99.78%, KL 1.2e-7 on 450 rows of d.npz"
    )
    heard = told(row("tanh", 0.81, 6.1e-4, effect=HEARD), **data)[1]
    assert heard.endswith("; top1 98.00% -> 97.50%, agreement 100.00%, KL 0 on 9 rows of d.npz")
    plain = told(row("tanh", 0.81, 6.1e-4, effect=EffectResult(rows=450, sqnr=79.4)), **data)[1]
    assert plain.endswith("; SQNR 79 dB on 450 rows of d.npz")
    assert "d.npz lacks an input" in told(row("tanh", 0.81, 6.1e-4), **data)[1]


def test_another_spelling_taken_changes_no_form() -> None:
    contrib = row("erf", 0.5)
    contrib["name"] = "erf as contrib"
    taken, price, _ = told(contrib, chosen="erf as contrib", tried="erf as contrib")
    assert taken.startswith("erf as contrib in the place of erf as ops: ")
    assert price == "no --max-form-error: the form stays"


def test_a_gain_that_was_not_borne_out() -> None:
    taken = told(row("tanh", 0.8), tried="tanh as ops", ratio=ratio(1.03))[0]
    assert (
        taken == "keeps erf as ops: tanh as ops seemed faster and, measured again, took 1.03 of its time (1.01 to 1.05)"
    )


def test_one_way_only() -> None:
    assert told() == [
        "keeps erf as ops: no other way to write it becomes other kernels here",
        "no --max-form-error: the form stays",
        f"nothing measured: {GELUS}, cpu",
    ]


def test_what_was_kept_and_what_could_not_be_seen() -> None:
    assert told(row("tanh", 1.0), cached=True)[2].endswith(
        f"{NOISE}; kept from an earlier run, --no-cache measures anew"
    )
    loud = told(row("tanh", 1.0), noise=Spread(median=1.0, low=0.7, high=1.6), cached=True)[2]
    assert "1.00 (0.70 to 1.60), so that no gain below 38% can be seen; kept" in loud

"""The study of activations: its statistics and verdicts, that networks of one seed are pairs, and what the docs say."""

from __future__ import annotations

import math
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from studying import schemes, training
from studying.claims import Claim, claims
from studying.results import Results
from studying.schemes import SCHEMES, VARIANTS, Judged, Measured, measured
from studying.statistics import POWER, Paired, Verdict, together, verdict
from studying.training import Task

DIGITS = Task("digits", seeds=4, depth=1, steps=2, batch=8, rate=1e-3, rows=40)
TEXT = Task("text", seeds=4, depth=1, steps=2, batch=4, rate=1e-3, rows=16)


def test_an_interval_is_that_of_the_t_test() -> None:
    differences = [0.3, -0.1, 0.7, 0.2, 0.4]
    found, test = Paired.of(differences), stats.ttest_1samp(differences, 0)
    ends = test.confidence_interval(0.95)
    assert (found.low, found.high, found.p) == pytest.approx((ends.low, ends.high, test.pvalue))
    assert (found.mean, found.error) == pytest.approx((0.3, stats.sem(differences)))


def test_what_could_have_been_seen_is_seen_as_often_as_stated() -> None:
    random = np.random.default_rng(0)
    shape = stats.norm.ppf((np.arange(10) + 0.5) / 10)
    size = Paired.of(list(shape / shape.std(ddof=1))).detectable
    seen = [Paired.of(list(random.normal(size, 1, 10))).low > 0 for _ in range(1000)]
    assert np.mean(seen) == pytest.approx(POWER, abs=0.06)


def test_no_difference_and_no_error() -> None:
    assert Paired.of([0.0, 0.0, 0.0]) == Paired(mean=0, error=0, low=0, high=0, p=1, detectable=0)
    with pytest.raises(ValueError, match="1 differences: expected two or more"):
        Paired.of([0.3])


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (11, 19, "confirmed"),
        (-1, 9, "refuted"),
        (20, 22, "refuted"),
        (9, 11, "cannot be told"),
        (5, 25, "cannot be told"),
        (math.nan, math.nan, "cannot be told"),
    ],
)
def test_a_claim_is_a_range(low: float, high: float, expected: Verdict) -> None:
    assert verdict(low, high, (10, 20)) == expected


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        (["confirmed", "confirmed"], "confirmed"),
        (["confirmed", "cannot be told"], "cannot be told"),
        (["confirmed", "cannot be told", "refuted"], "refuted"),
    ],
)
def test_one_case_refutes_and_all_confirm(cases: list[Verdict], expected: Verdict) -> None:
    assert together(cases) == expected


def made(digits: Callable[[str, str], Judged], text: Callable[[str, str], Judged], swapped: float = 0.1) -> Results:
    """Networks of four seeds, which differ from each other by the same everywhere, and a little at random."""
    random, found = np.random.default_rng(0), dict[tuple[str, str], list[Measured]]()
    ability = random.normal(0, 0.5, 4)
    for task, judged in ((DIGITS, digits), (TEXT, text)):
        for variant in VARIANTS:
            found[task.name, variant] = [
                Measured(
                    schemes={scheme: _moved(judged(variant, scheme), by, random) for scheme in SCHEMES},
                    effective=[0.97],
                    swapped=judged("gelu", "float")["score"] + by + swapped,
                )
                for by in ability
            ]
    return Results((DIGITS, TEXT), found)


def _moved(judged: Judged, by: float, random: np.random.Generator) -> Judged:
    score, sqnr = (value + random.normal(0, 1e-4) for value in (judged["score"] + by, judged["sqnr"]))
    return Judged(score=score, sqnr=sqnr)


def told(results: Results) -> dict[str, Claim]:
    return {claim.words: claim for claim in claims(results)}


def test_everything_that_is_claimed_is_confirmed_by_networks_that_are_so() -> None:
    """GELU is best, INT8 costs the others two points or percent, ReLU 15 % perplexity, and the tanh form nothing."""

    def digits(variant: str, scheme: str) -> Judged:
        ours = variant in {"gelu", "tanh"}
        return Judged(score=95 + 3 * ours - 2 * (scheme != "float" and not ours), sqnr=30 + 5 * ours)

    def text(variant: str, scheme: str) -> Judged:
        ours = variant in {"gelu", "tanh"}
        nats = 2 + math.log(1.15) * (not ours) + 0.02 * (scheme != "float" and not ours)
        return Judged(score=nats, sqnr=30 + 5 * ours)

    found = told(made(digits, text, swapped=math.log(1.15)))
    assert [claim.verdict for claim in found.values()] == ["confirmed"] * 10 + ["refuted"]
    assert "costs +15.0" in next(claim.found for words, claim in found.items() if "from scratch" in words)


def test_everything_that_is_claimed_is_refuted_by_networks_that_are_otherwise() -> None:
    """ReLU is better, loses less and has less noise; it costs no perplexity; the tanh form ruins accuracy."""

    def digits(variant: str, scheme: str) -> Judged:
        loss = {"gelu": 3, "tanh": 9}.get(variant, 0) * (scheme != "float")
        return Judged(
            score=95 - (variant == "gelu") - 2 * (variant == "tanh") - loss, sqnr=30 + 5 * (variant == "relu")
        )

    def text(variant: str, scheme: str) -> Judged:
        loss = {"gelu": 0.05, "tanh": 0.09}.get(variant, 0) * (scheme != "float")
        return Judged(score=2 + 0.1 * (variant == "gelu") + 0.2 * (variant == "tanh") + loss, sqnr=30)

    found = told(made(digits, text, swapped=0))
    assert [claim.verdict for claim in found.values()] == ["refuted"] * 11


def test_a_scheme_that_ruins_the_networks_is_no_case() -> None:
    """Everything speaks for GELU but in one scheme of one task, which nobody would use."""

    def text(variant: str, scheme: str) -> Judged:
        ours = variant in {"gelu", "tanh"}
        if scheme == "ort":
            return Judged(score=4 if ours else 3, sqnr=3 if ours else 6)
        return Judged(score=2 if ours else 2.02 + 0.02 * (scheme != "float"), sqnr=30 + 5 * ours)

    results = made(lambda *_: Judged(score=98, sqnr=30), text)
    assert len(results.sound(SCHEMES)) == 2 * len(SCHEMES) - 1
    assert "Of 9 cases" in next(claim.found for words, claim in told(results).items() if "INT8 costs" in words)


def test_networks_that_are_alike_tell_nothing_in_favour_of_gelu() -> None:
    found = told(made(lambda *_: Judged(score=98, sqnr=30), lambda *_: Judged(score=2, sqnr=30)))
    verdicts = [claim.verdict for claim in found.values()]
    *best, twin, _, better, cheaper, smooth, first, second, _ = verdicts
    assert "confirmed" not in [*best, smooth]
    assert (twin, better, cheaper, first, second) == (*["refuted"] * 3, *["confirmed"] * 2)


@pytest.mark.parametrize("task", [DIGITS, TEXT], ids=lambda task: task.name)
def test_networks_of_one_seed_are_pairs(task: Task) -> None:
    """Weights and data are the seed's, not the activation's; another seed has others."""
    first, second = (task.build(name, 3).state_dict() for name in ("gelu", "elu"))
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    assert any(not torch.equal(weight, first[name]) for name, weight in task.build("gelu", 4).state_dict().items())
    ours, again, others = task.data(3), task.data(3), task.data(4)
    assert all(np.array_equal(a, b) for a, b in zip(ours.test, again.test, strict=True))
    assert not np.array_equal(ours.test.inputs, others.test.inputs)
    assert len(ours.test.inputs) == task.rows
    assert task.key(3) == task.key(3) != task.key(4)


def test_held_out_files_are_not_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.py").write_bytes(bytes([number]) * 65 * 4)
    monkeypatch.setattr(sysconfig, "get_path", {"stdlib": str(tmp_path)}.__getitem__)
    seen, held = (set(np.unique(split.inputs)) for split in training.text(0))
    assert len(held) == 2
    assert len(seen) == 18
    assert not seen & held
    rows = training.text(0).training
    assert rows.inputs.shape == rows.labels.shape == (18 * 4, training.CONTEXT)


def test_the_label_of_a_byte_is_the_byte_that_follows() -> None:
    rows = training.text(0).test
    assert np.array_equal(rows.inputs[:, 1:], rows.labels[:, :-1])


def test_a_network_is_trained_and_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(TEXT, "tanh", 0, tmp_path)
    assert list(found["schemes"]) == list(SCHEMES)
    assert found["schemes"]["float"]["sqnr"] == math.inf
    assert all(10 < found["schemes"][scheme]["sqnr"] < 80 for scheme in ("int8", "dynamic", "ort softmax"))
    assert all(5 < one["score"] < 6 for one in found["schemes"].values()), "hardly trained: about ln 256 = 5.5 nats"
    assert [0 < rate < 1 for rate in found["effective"]] == [True] * TEXT.depth
    assert found["swapped"] != found["schemes"]["float"]["score"]
    monkeypatch.setattr(schemes, "_measure", None)
    monkeypatch.setattr(training, "train", None)
    assert measured(TEXT, "tanh", 0, tmp_path) == found
    assert {path.suffix for path in tmp_path.iterdir()} == {".pt", ".json"}


def test_training_lowers_the_loss() -> None:
    task = Task("digits", seeds=1, depth=1, steps=60, batch=32, rate=4e-3, rows=200)
    test = task.data(0).test
    before, after = (
        schemes.score(task, training.logits(network.eval(), test.inputs), test.labels)
        for network in (task.build("leaky_relu", 0), training.train(task, "leaky_relu", 0))
    )
    assert after > 70 > before


def test_the_docs_answer_every_claim(root: Path) -> None:
    page = " ".join((root / "docs" / "study.md").read_text(encoding="utf-8").split())
    for claim in claims(made(lambda *_: Judged(score=98, sqnr=30), lambda *_: Judged(score=2, sqnr=30))):
        _, found, after = page.partition(f"**{claim.words}** ")
        assert found, claim.words
        assert after.startswith(("Confirmed.", "Refuted.", "Cannot be told."))


@pytest.mark.slow
def test_the_whole_script_runs(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, root / "scripts" / "study", "--quick"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n## ") == 8
    assert "nan" not in done.stdout

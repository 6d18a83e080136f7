"""scripts/bench: what its goals say of records, the page that it writes, and that every part runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benching import goals, making, models, page, passes, record, workshop
from benching.networks import NETWORKS, feeds
from benching.peers import BY_NAME, PEERS, WEIGHTS
from benching.workshop import MISSING, Made, Workshop

from gelu_deploy.errors import NativeCrash
from gelu_deploy.timing.interleaved import Timing, Variant

NOBODY = Path("no") / "python"
HEAD = {
    "date": "2026-01-02",
    "machine": {"cpu": "a CPU", "kind": "avx2", "cores": 2, "gigabytes": 16, "system": "Linux", "load": 0.1},
    "versions": {"onnxruntime": "1.32.0"},
    "peers": {},
}


def row(
    name: str, ratio: float = 1.0, *, fused: int | None = 12, sqnr: float | None = 120.0, **more: Any
) -> dict[str, Any]:
    """A timed row; every round had the same ratio. None GELUs fused: it does not run in ONNX Runtime."""
    return {
        "variant": name,
        "onnxruntime": fused is not None,
        "milliseconds": 100 * ratio,
        "ratio": ratio,
        "low": ratio,
        "high": ratio,
        "megabytes": 500.0,
        "fused": fused,
        "sqnr": sqnr,
        "reason": "",
    } | more


def group(precision: str, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"network": "bert", "title": "BERT", "precision": precision, "batch": 1, "sites": 12, "rows": list(rows)}


def records(*groups: dict[str, Any], depths: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "models": {**HEAD, "groups": list(groups)} if groups else None,
        "export": {**HEAD, "depths": depths} if depths else None,
        "passes": None,
        "limit": None,
    }


def test_a_float_peer_that_is_faster_beyond_noise_is_a_miss_and_a_loss() -> None:
    noisy = row("onnxslim", 0.97, low=0.9, high=1.02)
    fine = records(group("fp32", row("gelu_deploy"), noisy, row("OpenVINO", 0.8, fused=None)))
    assert goals.goals(fine)[0].met is True
    assert goals.losses(fine) == ["BERT, fp32, batch 1: OpenVINO takes 0.80 (0.80 to 0.80) of our time"]
    ahead = records(group("fp32", row("gelu_deploy"), row("Optimum O2", 0.96)))
    goal = goals.goals(ahead)[0]
    assert goal.met is False
    assert "0.96" in goal.told
    assert "Optimum O2" in goal.told
    assert len(goals.losses(ahead)) == 1


@pytest.mark.parametrize(("ratio", "met"), [(1.1, True), (1.01, False)])
def test_a_peer_whose_gelus_stay_unfused_has_to_be_slower(ratio: float, met: bool) -> None:
    found = records(group("fp32", row("gelu_deploy"), row("torch.onnx", ratio, fused=0), row("onnxsim", 1.0)))
    assert goals.goals(found)[1].met is met


@pytest.mark.parametrize(
    ("ratio", "sqnr", "met"), [(1.1, 30.0, True), (0.9, 20.0, False), (1.1, 35.0, False), (1.0, 30.4, True)]
)
def test_int8_has_to_be_both_fastest_and_cleanest(ratio: float, sqnr: float, met: bool) -> None:
    own = row("gelu_deploy INT8", sqnr=30.0)
    scale = row("gelu_deploy fp32", 0.8, sqnr=120.0)  # no peer, but a loss
    found = records(group("int8", own, row("ONNX Runtime dynamic", ratio, sqnr=sqnr), scale))
    assert goals.goals(found)[2].met is met
    assert any(line.startswith("BERT, int8, batch 1: gelu_deploy fp32") for line in goals.losses(found))


def test_answers_that_are_not_finite_are_no_better_ones() -> None:
    broken = row("ONNX Runtime static", 1.2, sqnr=None, reason="its answers are not finite")
    found = records(group("int8", row("gelu_deploy INT8", sqnr=30.0), broken))
    assert goals.goals(found)[2].met is True


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert {goal.met for goal in goals.goals(records())} == {None}
    nothing = records(group("fp32", {"variant": "gelu_deploy", "reason": "it broke"}, row("onnxsim")))
    assert goals.goals(nothing)[0].met is False
    assert goals.losses(nothing) == ["BERT, fp32, batch 1: it broke"]


def test_export_is_held_against_torch_and_optimum_at_every_depth() -> None:
    def depth(layers: int, fast: float, whole: float, optimum: float) -> dict[str, Any]:
        seconds = {"torch.onnx.export": 10, "gelu_deploy --no-verify": fast, "gelu_deploy": whole, "Optimum": optimum}
        more = {"low": 1, "high": 1, "megabytes": 900, "reason": ""}
        rows = [{"variant": name, "seconds": time, "ratio": time / 10, **more} for name, time in seconds.items()]
        return {"layers": layers, "rows": rows}

    met = [goal.met for goal in goals.goals(records(depths=[depth(6, 12, 19, 20), depth(12, 12, 21, 20)]))]
    assert met == [None, None, None, True, False, False]
    broken = depth(6, 12, 19, 20)
    broken["rows"][2] = {"variant": "gelu_deploy", "reason": "it broke"}
    *_, against_torch, against_optimum = goals.goals(records(depths=[broken]))
    assert (against_torch.met, against_optimum.met) == (False, False)
    assert "it broke" in against_torch.told


def test_the_page_states_losses_and_goals_before_the_tables(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="nothing has been measured"):
        page.page(tmp_path)
    missing = {"variant": "onnxslim", "reason": MISSING}
    found = records(group("fp32", row("gelu_deploy"), missing, row("OpenVINO", 0.8, fused=None)))
    record.save(tmp_path, "models", found["models"])
    text = page.page(tmp_path)
    places = [text.index(words) for words in ("## What we lose at", "## The goals", "## `scripts/bench models`")]
    assert places == sorted(places)
    assert "OpenVINO takes 0.80" in text[places[0] : places[1]]
    assert MISSING in text[places[2] :]
    assert "a CPU, 2 cores (avx2), 16 GB" in text
    assert "not installed" in text


def test_a_table_is_markdown_and_lined_up() -> None:
    assert record.table(("a", ">b"), [["x|y", "1"], ["z", "22"]]).splitlines() == [
        "| a    |   b |",
        "| ---- | --: |",
        "| x\\|y |   1 |",
        "| z    |  22 |",
    ]


def test_growth_is_the_power_that_times_grow_with() -> None:
    sizes = [{"operators": n, "rows": [{"variant": "one", "seconds": n**2 / 1e6}]} for n in (100, 1000, 10_000)]
    assert passes.growth(sizes, "one") == pytest.approx(2)
    assert passes.growth(sizes[:1], "one") is None


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_are_as_many_as_asked_and_the_same_for_a_seed(name: str) -> None:
    some, again = (feeds(name, 3, tiny=True, seed=7) for _ in range(2))
    assert all(len(array) == 3 for array in some.values())
    assert all((some[key] == again[key]).all() for key in some)


def test_every_tool_is_there_and_begins_with_something() -> None:
    for peer in BY_NAME.values():
        assert not peer.tool or callable(getattr(making, peer.tool))
        assert peer.source in BY_NAME or peer.name == WEIGHTS
    assert all(peers[0].name.startswith("gelu_deploy") for peers in PEERS.values())


def test_without_the_peers_environment_a_row_says_so(tmp_path: Path) -> None:
    shop = Workshop("mixer", tmp_path, NOBODY, tiny=True)
    assert shop.made("onnxsim") == Made("", MISSING)
    assert shop.made("Optimum O2") == Made("", MISSING)
    assert not list(tmp_path.iterdir())  # it may be installed later


def test_a_file_is_made_once_and_a_failure_keeps_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Workshop("mixer", tmp_path, tiny=True, batches=(2,))
    weights = shop.made(WEIGHTS)
    assert weights.reason == ""
    assert (Path(weights.file) / "model.safetensors").is_file()
    assert shop.answers(2).shape == (2, 1000)
    assert list(shop.feeds(2)) == ["pixel_values"]
    monkeypatch.setattr(workshop, "run", lambda *_: ("", "ValueError: not today"))
    assert shop.made(WEIGHTS) == weights
    failed = shop.made("gelu_deploy")
    assert (failed.file, failed.reason) == ("", "ValueError: not today")
    monkeypatch.undo()
    assert shop.made("gelu_deploy") == failed
    assert shop.made("gelu_deploy INT8") == Made("", "ValueError: not today")  # it begins with that file


def test_a_tool_that_fails_tells_its_own_words_without_a_place() -> None:
    said, reason = workshop.run(sys.executable, "gelus", "/some/where/nothing.onnx", "", {})
    assert said == ""
    assert "nothing.onnx" in reason
    assert "/some" not in reason


def test_variants_that_memory_cannot_hold_together_are_timed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [(peer, Variant(peer.name, "m:f", {})) for peer in PEERS["fp32"]]
    alone = Timing("gelu_deploy", ((1.0,),), {}, memory=10**9, memory_before=0)
    monkeypatch.setattr(models, "timed", lambda *_, **__: [alone])
    monkeypatch.setattr(models, "free_memory", lambda: 11e9)
    found = [[peer.name for peer, _ in part] for part in models.parts(entries[0], entries[1:], {})]
    assert [len(part) for part in found] == [5, 5, len(entries) - 8]
    assert {part[0] for part in found} == {"gelu_deploy"}
    assert [name for part in found for name in part[1:]] == [peer.name for peer in PEERS["fp32"][1:]]


def test_one_that_cannot_be_run_gets_its_reason_and_the_others_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(variants: list[Variant], *_: Any, **__: Any) -> list[Timing]:
        if any(one.name == "OpenVINO" for one in variants):
            raise NativeCrash("OpenVINO could not be timed: RuntimeError: no such operator")
        return [Timing(one.name, ((1.0,),), {}, 1, 0) for one in variants]

    monkeypatch.setattr(models, "timed", timed)
    part = [(peer, Variant(peer.name, "m:f", {})) for peer in PEERS["fp32"][-4:]]
    times, reasons = models.one_by_one(part, {}, 1)
    assert reasons == {"OpenVINO": "RuntimeError: no such operator"}
    assert list(times) == [peer.name for peer, _ in part if peer.name != "OpenVINO"]


def bench(root: Path, place: Path, *arguments: str) -> str:
    """What the command prints, without peers."""
    words = [sys.executable, str(root / "scripts" / "bench"), *arguments, "--place", str(place), "--peers", str(NOBODY)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_passes_run_and_become_a_page(root: Path, tmp_path: Path) -> None:
    table = bench(root, tmp_path, "passes", "--quick")
    found = json.loads((tmp_path / "quick" / "passes.json").read_text())
    own, *others = found["sizes"][0]["rows"]
    assert (own["variant"], own["gelus"], own["ratio"]) == ("gelu_deploy", 4, 1)
    assert [one["reason"] for one in others] == [MISSING] * 2
    text = bench(root, tmp_path, "page", "--quick")
    assert table.splitlines()[0] in text
    assert "## `scripts/bench passes`" in text


@pytest.mark.slow
def test_every_other_part_runs(root: Path, tmp_path: Path) -> None:
    bench(root, tmp_path, "limit", "--quick")
    bench(root, tmp_path, "export", "--quick")
    printed = bench(root, tmp_path, "models", "--quick", "--only", "mixer", "--batch", "2")
    assert "torch.onnx" in printed
    float_, integer = json.loads((tmp_path / "quick" / "models.json").read_text())["groups"]
    rows = {one["variant"]: one for one in (*float_["rows"], *integer["rows"])}
    assert rows["gelu_deploy"]["fused"] == float_["sites"] == 4
    assert rows["gelu_deploy"]["sqnr"] > 80
    assert rows["gelu_deploy INT8"]["sqnr"] > 20
    assert rows["torch.onnx, opset 18"]["fused"] == 0
    assert rows["onnxslim"] == {"variant": "onnxslim", "reason": MISSING}
    depth = json.loads((tmp_path / "quick" / "export.json").read_text())["depths"][0]
    assert {one["variant"]: "ratio" in one for one in depth["rows"]}["gelu_deploy"]
    text = bench(root, tmp_path, "page", "--quick")
    assert "a trial with tiny networks" in text
    assert all(f"## `scripts/bench {what}`" in text for what in ("models", "export", "limit"))

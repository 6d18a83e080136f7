"""Variants timed in turns, each in its own process: every run counted, nobody disturbed, nothing left behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from gelu_deploy import runtime
from gelu_deploy.arrays import Arrays
from gelu_deploy.artifact import golden
from gelu_deploy.errors import NativeCrash
from gelu_deploy.runtime.settings import Settings
from gelu_deploy.timing import interleaved
from gelu_deploy.timing.interleaved import Timing, Variant, timed

HERE = Path(__file__).parent
X = {"x": np.ones((512, 256), np.float32)}
TEXT = """<ir_version: 9, opset_import: ["": 20]>
network (float[n, 256] x) => (float[n, n] y) { t = Transpose<perm = [1, 0]>(x)  y = MatMul(x, t) }"""


def variant(opener: str, called: str = "it", /, **arguments: Any) -> Variant:
    return Variant(called, f"{HERE / 'openers.py'}:{opener}", arguments)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    ir.save(ir.from_proto(parser.parse_model(TEXT)), path)
    return path


def test_each_variant_has_its_turns_and_answers(model: Path) -> None:
    plain = Settings(threads=1, spinning=False)
    feeds = {"x": X["x"][:4]}
    found = timed([Variant.session("own", model), Variant.session("plain", model, plain)], feeds, rounds=3, runs=2)
    assert [one.name for one in found] == ["own", "plain"]
    assert all(len(one.rounds) == 3 and min(one.milliseconds) > 0 for one in found)
    wanted = runtime.evaluate(model, feeds, optimise=False)["y"]
    for one in found:
        np.testing.assert_allclose(one.answers["y"], wanted, rtol=1e-5)


def test_what_a_runtime_has_no_name_for_comes_and_goes_as_it_is() -> None:
    import ml_dtypes

    feeds: Arrays = {"a/b": np.array([1.5, -2], ml_dtypes.bfloat16), "file": np.array(3)}
    (found,) = timed([variant("sleeping", seconds=0)], feeds, rounds=1, seconds=0.01)
    assert {name: (array.dtype, array.tolist()) for name, array in found.answers.items()} == {
        name: (array.dtype, array.tolist()) for name, array in feeds.items()
    }


def test_numbers_are_of_rounds_and_of_single_runs() -> None:
    one = Timing("one", ((1.0, 2.0, 9.0), (20.0, 10.0, 30.0, 10.0)), {}, 0, 0)
    assert one.milliseconds == (2.0, 15.0)
    assert one.median == 8.5
    assert (one.quantile(0), one.quantile(0.5), one.quantile(1)) == (1.0, 10.0, 30.0)
    assert one.ratios(Timing("base", ((1.0,), (5.0,)), {}, 0, 0)).tolist() == [2.0, 3.0]


def test_a_slow_run_in_twenty_is_seen_in_the_tail_alone() -> None:
    (found,) = timed([variant("sleeping", seconds=0.02, every=20)], X, rounds=3, runs=40)
    assert sum(map(len, found.rounds)) >= 120
    assert found.quantile(0.5) < 5
    assert found.quantile(0.99) >= 20


def test_a_turn_has_its_least_and_its_most() -> None:
    (quick,) = timed([variant("sleeping", seconds=0.001)], X, rounds=2, runs=2)
    assert all(sum(runs) >= 99 for runs in quick.rounds)
    (many,) = timed([variant("sleeping", seconds=0.005)], X, rounds=1, runs=60)
    assert len(many.rounds[0]) == 60
    (slow,) = timed([variant("sleeping", seconds=0.2)], X, rounds=2, runs=60, seconds=0.3)
    assert [len(runs) for runs in slow.rounds] == [1, 1]


def test_each_round_begins_with_another_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    timed([variant("logging", name, name=name, log=str(log)) for name in "abc"], X, rounds=3, seconds=0.01)
    turns = "".join(name for name, _ in itertools.groupby(log.read_text().split()))
    assert turns == "abc" + "abc" + "bca" + "cab"  # the first time they are opened


def test_memory_is_that_of_the_variants_own_process() -> None:
    ours = np.ones(400_000_000, np.uint8)  # what this process has must not be seen
    small, large, moment = timed(
        [variant("allocating", megabytes=size, passing=passing) for size, passing in ((0, 0), (200, 0), (0, 200))],
        X,
        rounds=1,
        seconds=0.01,
    )
    assert small.memory < 100e6 < ours.nbytes
    assert small.memory - small.memory_before < 10e6
    for one in (large, moment):  # Linux counts pages some dozens at a time
        assert 199e6 < one.memory - one.memory_before < 210e6


def test_what_an_opener_imports_is_no_memory_of_the_model() -> None:
    (top,) = timed([Variant("top", f"{HERE / 'openers_large.py'}:small", {})], X, rounds=1, seconds=0.01)
    assert 150e6 <= top.memory_before <= top.memory < top.memory_before + 10e6
    later = Variant("later", f"{HERE / 'openers.py'}:allocating", {"megabytes": 1}, ("scipy.stats", "no_such_module"))
    plain = variant("allocating", megabytes=1)
    with_it, without = timed([later, plain], X, rounds=1, seconds=0.01)
    assert with_it.memory_before > without.memory_before + 20e6
    assert with_it.memory - with_it.memory_before < 10e6


def test_a_process_imports_what_its_opener_imports() -> None:
    (found,) = timed([variant("modules")], X, rounds=1, seconds=0.01)
    assert found.answers["loaded"].tolist() == []


def test_one_that_says_much_is_not_stopped_by_it() -> None:
    (found,) = timed([variant("chatty", lines=2000)], X, rounds=2, seconds=0.01)
    assert len(found.rounds) == 2


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (variant("refusing"), r"ValueError: the file is damaged: no weights"),
        (variant("failing", runs=3), r"RuntimeError: not today"),
        (variant("failing", runs=3, kill=True), r"its process ended with SIGKILL: out of something"),
        (variant("nothing"), r"\S*openers\.py has no 'nothing'; it has: .*"),
        (Variant.session("it", HERE / "none.onnx"), r".*none\.onnx does not exist.*"),
    ],
    ids=["opener", "run", "death", "target", "model"],
)
def test_one_that_fails_is_named_with_its_last_words(broken: Variant, said: str) -> None:
    with pytest.raises(NativeCrash, match=rf"^it could not be timed: {said}$"):
        timed([variant("sleeping", "own", seconds=0), broken], X, rounds=3, seconds=0.01)


def test_one_that_died_while_it_waited_is_named_too(tmp_path: Path) -> None:
    with (
        pytest.raises(NativeCrash, match=r"^it could not be timed: its process ended with SIGKILL$"),
        opened(variant("sleeping", seconds=0), tmp_path) as child,
    ):
        turn_of_the_dead(child)


def turn_of_the_dead(child: interleaved._Child) -> None:
    child._process.kill()
    child._process.wait()
    child.turn(1, 0.01)


def test_one_that_waits_leaves_the_cores_to_others(model: Path, tmp_path: Path) -> None:
    used = list[float]()
    with opened(Variant.session("own", model, Settings(threads=2)), tmp_path) as child:
        for _ in range(3):  # on a busy machine threads that spin can look as if they rested
            child.turn(5, 1.0)
            before = processor_seconds(child._process.pid)
            time.sleep(0.3)
            used.append(processor_seconds(child._process.pid) - before)
    assert min(used) < 0.02


def opened(one: Variant, place: Path) -> AbstractContextManager[interleaved._Child]:
    golden.write(place / "feeds.npz", [golden.Case(X, {})])
    return interleaved._child(one, place, 0)


def processor_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_when_interrupted_nothing_stays(tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = variant("helped", log=str(log))
    code = f"from gelu_deploy.timing.interleaved import Variant, timed\ntimed([{one!r}], {{}})"
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: log.is_file() and log.read_text().endswith("."))
    child, helper = log.read_text().split()[:2]
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=30)
    assert said.strip().endswith("KeyboardInterrupt")
    assert not Path(f"/proc/{child}").exists()
    wait_for(lambda: gone(helper))


def gone(pid: str) -> bool:
    """Whether it has ended; it may wait to be reaped by the system."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def wait_for(happens: Any) -> None:
    end = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)

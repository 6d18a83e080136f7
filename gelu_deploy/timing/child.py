"""One variant of a model in a process of its own: opened by the function that is named, then run when it is told to.

Lines of JSON come in on stdin: first what to open, then how often to run; lines of JSON go out. Between them it waits
and its threads rest, so that it disturbs no other variant. It knows no runtime: only what opens the model imports one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.artifact import golden
from gelu_deploy.errors import GeluDeployError
from gelu_deploy.target import importable, load, split
from gelu_deploy.timing.memory import peak

LEAST_SECONDS = 0.1
"""A turn lasts at least so long, whatever number of runs was asked for."""

RESTING = 0.04
"""Seconds in which a process whose threads rest uses less than a tenth of one core."""

LONGEST_REST = 0.5
"""Seconds after which threads that still do not rest are no longer waited for. ONNX Runtime's spin for 0.04 after a run
on an idle machine, and 0.2 on a busy one."""

Run = Callable[[Arrays], Mapping[str, Array]]


def main() -> None:
    """Serve on stdin and stdout; what the model prints there goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


def serve(lines: Iterator[str], answers: IO[str]) -> None:
    """Answer until the lines end, each time when the threads rest; or with an ``error`` in one line.

    ``{"memory_before": bytes}`` once the model has been opened and has answered the feeds; then, for each
    ``{"runs": n, "seconds": s}``, ``{"milliseconds": [of every run], "memory": bytes}``.
    """
    try:
        for answer in _answers(lines):
            _rest()
            _say(answers, answer)
    except Exception as error:  # noqa: BLE001  # whatever a model's own code raises
        _say(answers, {"error": _one_line(error)})


def _answers(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    asked: dict[str, Any] = json.loads(next(lines))
    cases = golden.read(Path(asked["feeds"]))
    feeds = cases[0].inputs if cases else {}
    opener = load(asked["opener"])
    for name in asked["imports"]:
        with suppress(ImportError):  # what opens the model says better what is missing
            import_module(name)
    before = peak()
    with importable(split(asked["opener"])[0]):
        run: Run = opener(**asked["arguments"])
        golden.write(Path(asked["answers"]), [golden.Case(feeds, dict(run(feeds)))])
    yield {"memory_before": before}
    for line in lines:
        turn = json.loads(line)
        yield {"milliseconds": _turn(run, feeds, turn["runs"], turn["seconds"]), "memory": peak()}


def _turn(run: Run, feeds: Arrays, runs: int, seconds: float) -> list[float]:
    """Milliseconds of each run, after one that does not count."""
    first = time.perf_counter()
    run(feeds)
    start = time.perf_counter()
    least, most, taken = start + LEAST_SECONDS, first + seconds, list[float]()
    while not taken or (start < most and (len(taken) < runs or start < least)):
        run(feeds)
        end = time.perf_counter()
        taken.append(1e3 * (end - start))
        start = end
    return taken


def _rest() -> None:
    """Until this process leaves the cores to others, :data:`LONGEST_REST` at most."""
    end, used = time.perf_counter() + LONGEST_REST, time.process_time()
    while time.perf_counter() < end:
        time.sleep(RESTING)
        before, used = used, time.process_time()
        if used - before < RESTING / 10:
            return


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, GeluDeployError) else f"{type(error).__name__}: {text}"


def _say(answers: IO[str], what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()

"""One variant of a model in a process of its own: it opens a session, then runs when it is told to.

Lines of JSON come in on stdin: first what to open, then how often to run; lines of JSON go out. It waits idle between
them, so that its threads disturb no other variant.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import IO, Any

import numpy as np

from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.runtime import Session
from gelu_deploy.runtime.settings import Settings

LEAST_SECONDS = 0.1
"""A turn lasts at least so long, whatever number of runs was asked for."""


def serve(lines: IO[str], answers: IO[str]) -> None:
    """Answer until the lines end: ``{"milliseconds": median}`` for ``{"runs": n}``."""
    opening: dict[str, Any] = json.loads(lines.readline())
    session = Session(opening["model"], opening["provider"], settings=Settings.from_json(opening["settings"]))
    with np.load(opening["feeds"], allow_pickle=False) as archive:
        feeds = {name: archive[name] for name in archive.files}
    write_npz(Path(opening["answers"]), session(feeds))
    _say(answers, {"ready": True})
    for line in lines:
        _say(answers, {"milliseconds": _turn(session, feeds, int(json.loads(line)["runs"]))})


def _turn(session: Session, feeds: dict[str, Any], runs: int) -> float:
    """Median milliseconds of one run, after one that does not count."""
    session(feeds)
    taken, end = list[float](), time.perf_counter() + LEAST_SECONDS
    while len(taken) < runs or time.perf_counter() < end:
        start = time.perf_counter()
        session(feeds)
        taken.append(1e3 * (time.perf_counter() - start))
    return float(np.median(taken))


def _say(answers: IO[str], what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)

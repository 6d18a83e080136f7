"""Variants of a model timed against each other: each in its own process, in turns, round after round.

ONNX Runtime's threads spin after a run and disturb whatever else runs in the process; so a variant never shares one,
and while one runs the others wait. It knows nothing of what the variants are for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.errors import NativeCrash
from gelu_deploy.runtime.settings import Settings


@dataclass(frozen=True)
class Variant:
    """One model opened in one way.

    Attributes:
        name: What reports call it.
        model: The file.
        settings: How it is opened.
        provider: Where it runs.
    """

    name: str
    model: Path
    settings: Settings = field(default_factory=Settings)
    provider: str = "cpu"


@dataclass(frozen=True)
class Timing:
    """What one variant took.

    Attributes:
        name: Of the variant.
        milliseconds: Median of each round.
        answers: What it answered to the feeds.
    """

    name: str
    milliseconds: tuple[float, ...]
    answers: Arrays

    @property
    def median(self) -> float:
        """Over the rounds."""
        return float(np.median(self.milliseconds))

    def ratios(self, base: Timing) -> Array:
        """This one's time over ``base``'s, round by round."""
        ratios: Array = np.array(self.milliseconds) / np.array(base.milliseconds)
        return ratios


def timed(variants: Sequence[Variant], feeds: Mapping[str, Array], *, rounds: int = 7, runs: int = 5) -> list[Timing]:
    """Time all variants in turns.

    Args:
        variants: At least one; their files must hold the same inputs.
        feeds: What each run is given.
        rounds: How often each has its turn.
        runs: Runs of one turn, at least.

    Raises:
        NativeCrash: A variant could not be opened or died; the message has its last line.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        write_npz(place / "feeds.npz", feeds)
        children = [stack.enter_context(_child(v, place, n)) for n, v in enumerate(variants)]
        taken = [[child.turn(runs) for child in _order(children, turn)] for turn in range(rounds)]
        found = list[Timing]()
        for number, variant in enumerate(variants):
            each = tuple(row[_place(number, turn, len(children))] for turn, row in enumerate(taken))
            with np.load(place / f"{number}.npz", allow_pickle=False) as archive:
                found.append(Timing(variant.name, each, {name: archive[name] for name in archive.files}))
        return found


def _order(children: list[_Child], turn: int) -> list[_Child]:
    """Each round begins with another one, so that none always follows the same."""
    first = turn % len(children)
    return children[first:] + children[:first]


def _place(number: int, turn: int, count: int) -> int:
    return (number - turn) % count


@contextmanager
def _child(variant: Variant, place: Path, number: int) -> Generator[_Child]:
    command = [sys.executable, "-m", "gelu_deploy.timing.child"]
    environment = os.environ | {"ORT_DISABLE_TELEMETRY": os.environ.get("ORT_DISABLE_TELEMETRY", "1")}
    with subprocess.Popen(  # noqa: S603  # our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            child = _Child(process, variant.name)
            child.ask(
                {
                    "model": str(variant.model),
                    "provider": variant.provider,
                    "settings": variant.settings.to_json(),
                    "feeds": str(place / "feeds.npz"),
                    "answers": str(place / f"{number}.npz"),
                }
            )
            yield child
        finally:
            process.kill()


class _Child:
    """The parent's end of one variant."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process, self._name = process, name

    def turn(self, runs: int) -> float:
        return float(self.ask({"runs": runs})["milliseconds"])

    def ask(self, what: Mapping[str, object]) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except OSError:  # it is dead; what it said last is read below
            pass
        line = self._process.stdout.readline()
        if not line:
            raise NativeCrash(f"{self._name} could not be timed: {self._last_words()}")
        answer: dict[str, float] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        assert self._process.stderr is not None
        said = self._process.stderr.read().strip().splitlines()
        return said[-1] if said else f"its process ended with {self._process.returncode}"

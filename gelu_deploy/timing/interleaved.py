"""Variants of a model timed against each other: each in its own process, in turns, round after round.

ONNX Runtime's threads spin after a run and disturb whatever else runs in the process; so a variant never shares one,
and while one runs the others wait. It knows nothing of what the variants are for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.artifact import golden
from gelu_deploy.errors import NativeCrash
from gelu_deploy.runtime.settings import DEFAULT, Settings

MOST_SECONDS = 10.0
"""A turn of a slow model is over after so long, with fewer runs than were asked for."""

_LAST_WORDS = 1 << 16  # bytes at the end of what a process said


@dataclass(frozen=True)
class Variant:
    """One model opened in one way, by a function that is named; its process imports what that imports, and no more.

    Attributes:
        name: What reports call it.
        opener: ``MODULE:NAME`` or ``FILE.py:NAME`` of what is called with ``arguments``. It returns something that is
            called with arrays by name and returns arrays by name.
        arguments: Keywords for it, plain values that JSON has.
        imports: Modules that the opener imports only when it is called, so that their memory is not taken for the
            model's. Those at the top of its file need not be said.
    """

    name: str
    opener: str
    arguments: Mapping[str, Any]
    imports: tuple[str, ...] = ()

    @classmethod
    def session(cls, name: str, model: Path, settings: Settings = DEFAULT, provider: str = "cpu") -> Self:
        """An ONNX file in ONNX Runtime, with these settings whatever is stored in it."""
        arguments = {"model": str(model), "provider": provider, "settings": settings.to_json()}
        return cls(name, "gelu_deploy.runtime.opener:session", arguments, ("onnxruntime",))


@dataclass(frozen=True)
class Timing:
    """What one variant took.

    Attributes:
        name: Of the variant.
        rounds: Milliseconds of every single run, by round.
        answers: What it answered to the feeds.
        memory: The most bytes that its process had resident.
        memory_before: The same before the model was opened: Python, the runtime, the feeds.
    """

    name: str
    rounds: tuple[tuple[float, ...], ...]
    answers: Arrays
    memory: int
    memory_before: int

    @property
    def milliseconds(self) -> tuple[float, ...]:
        """Median of each round."""
        return tuple(float(np.median(runs)) for runs in self.rounds)

    @property
    def median(self) -> float:
        """Over the rounds' medians."""
        return float(np.median(self.milliseconds))

    def quantile(self, q: float) -> float:
        """Milliseconds that a share ``q`` of all single runs stays below."""
        return float(np.quantile(np.concatenate(self.rounds), q))

    def ratios(self, base: Timing) -> Array:
        """This one's time over ``base``'s, round by round."""
        ratios: Array = np.array(self.milliseconds) / np.array(base.milliseconds)
        return ratios


def timed(
    variants: Sequence[Variant],
    feeds: Mapping[str, Array],
    *,
    rounds: int = 7,
    runs: int = 5,
    seconds: float = MOST_SECONDS,
) -> list[Timing]:
    """Time all variants in turns.

    Args:
        variants: At least one; they must take the same inputs. All stay open until the last round.
        feeds: What each run is given.
        rounds: How often each has its turn.
        runs: Runs of one turn, at least; a turn goes on for 0.1 s in any case. A 99th percentile needs 100 in sum.
        seconds: A turn ends after so long even so, with one run at least.

    Raises:
        NativeCrash: A variant could not be opened, failed or died; the message has what it said last.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        golden.write(place / "feeds.npz", [golden.Case(dict(feeds), {})])
        children = [stack.enter_context(_child(one, place, number)) for number, one in enumerate(variants)]
        for turn in range(rounds):
            for child in _order(children, turn):
                child.turn(runs, seconds)
        return [child.timing() for child in children]


def _order(children: list[_Child], turn: int) -> list[_Child]:
    """Each round begins with another one, so that none is always the first."""
    first = turn % len(children)
    return children[first:] + children[:first]


@contextmanager
def _child(variant: Variant, place: Path, number: int) -> Generator[_Child]:
    """A process with the variant in it; nothing of it stays afterwards, whatever it has started."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from gelu_deploy.timing.child import main; main()"
    environment = os.environ | {"ORT_DISABLE_TELEMETRY": os.environ.get("ORT_DISABLE_TELEMETRY", "1")}
    said = place / f"{number}.txt"  # a pipe that nobody reads would fill up and stop it
    with (
        said.open("wb") as errors,
        subprocess.Popen(  # noqa: S603  # our own words
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            env=environment,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield _Child(process, variant, place / "feeds.npz", place / f"{number}.npz", said)
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # of what it was told and did not live to read
        process.stdin.close()


class _Child:
    """The parent's end of one variant."""

    def __init__(
        self, process: subprocess.Popen[str], variant: Variant, feeds: Path, answers: Path, said: Path
    ) -> None:
        self._process, self._name, self._answers, self._said = process, variant.name, answers, said
        self._rounds, self._memory = list[tuple[float, ...]](), 0
        opened = self._ask(
            opener=variant.opener,
            arguments=dict(variant.arguments),
            imports=variant.imports,
            feeds=str(feeds),
            answers=str(answers),
        )
        self._before = int(opened["memory_before"])

    def turn(self, runs: int, seconds: float) -> None:
        taken = self._ask(runs=runs, seconds=seconds)
        self._rounds.append(tuple(taken["milliseconds"]))
        self._memory = int(taken["memory"])

    def timing(self) -> Timing:
        answers = golden.read(self._answers)[0].outputs
        return Timing(self._name, tuple(self._rounds), answers, self._memory, self._before)

    def _ask(self, **what: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it is dead; what it said last is read below
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._last_words()}
        if "error" in answer:
            raise NativeCrash(f"{self._name} could not be timed: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        """How the process ended, and the last line that it wrote to stderr."""
        code = self._process.wait()
        death = signal.Signals(-code).name if -code in {*signal.Signals} else f"exit code {code}"
        words = self._said.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip().splitlines()
        return f"its process ended with {death}" + (f": {words[-1]}" if words else "")

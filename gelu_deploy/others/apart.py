"""Runs models in another runtime, in child processes: a crash is an error of ours, and so is a hang.

It knows serialised models and arrays, and nothing of GELU or of how a runtime is called.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.errors import GeluDeployError, LimitError, ModelError, NativeCrash, SetupError
from gelu_deploy.others.child import ANSWER

SECONDS = 300.0
"""What all runs of one model may take, opening it included."""
ERRORS = {error.__name__: error for error in (ModelError, SetupError)}


@dataclass(frozen=True)
class Job:
    """One model, its outputs by name, and one or more sets of inputs to run it on."""

    model: bytes
    outputs: Sequence[str]
    feeds: Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class Answers:
    """What a runtime made of a job: the outputs of every run, and its own version."""

    outputs: list[Arrays]
    version: str


def run(name: str, jobs: Sequence[Job], *, seconds: float = SECONDS) -> list[Answers | GeluDeployError]:
    """Answers, or in the place of one what went wrong: ModelError, NativeCrash or LimitError.

    The jobs share a process until one of them brings it down. Raises SetupError if the runtime cannot be had.
    """
    with tempfile.TemporaryDirectory(prefix="gelu_deploy-") as folder:
        places = [_written(job, Path(folder) / str(place)) for place, job in enumerate(jobs)]
        ended = dict[Path, GeluDeployError]()
        while waiting := [place for place in places if place not in ended and not (place / ANSWER).is_file()]:
            trouble = _child(name, waiting, seconds)
            stuck = next((place for place in waiting if not (place / ANSWER).is_file()), None)
            if stuck is not None:
                ended[stuck] = trouble or NativeCrash(f"{name} ended without an answer")
        return [ended.get(place) or _read(place, len(job.feeds)) for place, job in zip(places, jobs, strict=True)]


def one(name: str, job: Job, *, seconds: float = SECONDS) -> Answers:
    """The answers of a single job. Raises what :func:`run` gives in its place."""
    (answer,) = run(name, [job], seconds=seconds)
    if isinstance(answer, GeluDeployError):
        raise answer
    return answer


def _written(job: Job, folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.onnx").write_bytes(job.model)
    (folder / "job.json").write_text(json.dumps({"outputs": list(job.outputs), "runs": len(job.feeds)}), "utf-8")
    for place, feeds in enumerate(job.feeds):
        write_npz(folder / f"{place}.in.npz", feeds)
    return folder


def _child(name: str, folders: Sequence[Path], seconds: float) -> GeluDeployError | None:
    """Let one process work through the folders; what brought it down, if something did."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from gelu_deploy.others.child import main; main()"
    words = [sys.executable, "-c", code, name, *map(str, folders)]
    pipe = subprocess.PIPE
    child = subprocess.Popen(words, stdout=pipe, stderr=pipe, start_new_session=True)  # noqa: S603  # our own words
    try:
        _, said = child.communicate(timeout=seconds * len(folders))
    except subprocess.TimeoutExpired:
        return LimitError(f"{name} did not finish within {seconds * len(folders):g} s")
    finally:
        _end(child)
    if child.returncode == 0:
        return None
    last = said.decode(errors="replace").strip().rpartition("\n")[2]
    return NativeCrash(f"{name} crashed ({_death(child.returncode)}){last and f': {last}'}")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Nothing of it stays, whatever it has started; when all went well nobody is there any more."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def _death(code: int) -> str:
    return signal.Signals(-code).name if -code in {*signal.Signals} else f"exit code {code}"


def _read(folder: Path, runs: int) -> Answers | GeluDeployError:
    said = json.loads((folder / ANSWER).read_text(encoding="utf-8"))
    if "error" in said:
        error = ERRORS[said["error"]](said["text"])
        if isinstance(error, SetupError):
            raise error
        return error
    outputs = list[Arrays]()
    for place in range(runs):
        with np.load(folder / f"{place}.out.npz") as found:
            outputs.append({key: found[key] for key in found.files})
    return Answers(outputs, said["version"])

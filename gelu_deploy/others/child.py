"""The process in which another runtime works: it may crash or hang there without taking us with it.

It reads jobs from a folder and writes answers into it, one by one, so that what was answered before a crash is kept.
It knows nothing of what the arrays mean.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.errors import GeluDeployError, ModelError, SetupError
from gelu_deploy.others import RUNTIMES, Model, Opener
from gelu_deploy.target import load

ANSWER = "answer.json"


def main() -> None:
    """``RUNTIME FOLDER…``: each has model.onnx, job.json and the feeds, and gets answer.json and the outputs."""
    name, *folders = sys.argv[1:]
    for folder in map(Path, folders):
        said = _answer(name, folder)
        written = folder / f"{ANSWER}.part"
        written.write_text(json.dumps(said), encoding="utf-8")
        written.rename(folder / ANSWER)


def _answer(name: str, folder: Path) -> dict[str, str]:
    try:
        return {"version": _work(name, folder)}
    except ImportError as error:
        return _problem(SetupError, f"the runtime {name} is not installed ({error}): {RUNTIMES[name].install}")
    except SetupError as error:
        return _problem(SetupError, f"the runtime {name} cannot be used: {error}")
    except Exception as error:  # noqa: BLE001  # each runtime has its own types for what it cannot do
        return _problem(ModelError, f"{name} refuses the model: {_first_line(error)}")


def _problem(kind: type[GeluDeployError], text: str) -> dict[str, str]:
    return {"error": kind.__name__, "text": text}


def _work(name: str, folder: Path) -> str:
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    opener: Opener = load(RUNTIMES[name].opener)
    model: Model = opener(folder / "model.onnx", job["outputs"])
    for place in range(job["runs"]):
        with np.load(folder / f"{place}.in.npz") as feeds:
            found = model({key: feeds[key] for key in feeds.files})
        write_npz(folder / f"{place}.out.npz", found)
    return model.version


def _first_line(error: Exception) -> str:
    """What the runtime itself says first."""
    lines = [line.strip(" >\t") for line in str(error).splitlines() if line.strip(" >\t")]
    return lines[0] if lines else type(error).__name__

"""``scripts/bench export``: what an export takes, as a program that a user starts, and the memory that it needs.

A BERT of 6, 12 and 24 layers of the base model's width goes through PyTorch's exporter alone, this project with and
without its checks, and Optimum, in turns, each a process of its own. It judges nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benching import networks, record
from benching.workshop import MISSING, PROGRAM, run

LAYERS, ROUNDS = (6, 12, 24), 2
BASE, FAST, OURS, OPTIMUM = "torch.onnx.export", "gelu_deploy --no-verify", "gelu_deploy", "Optimum"
HEADERS = ("layers", "program", ">seconds", ">time / torch's", ">peak MB", "")


@dataclass(frozen=True)
class Spent:
    """One run of a program: seconds, bytes at its peak, and why it failed."""

    seconds: float
    peak: float
    reason: str = ""


def export(place: Path, python: Path, *, layers: Sequence[int] = LAYERS, rounds: int = ROUNDS, tiny: bool) -> None:
    """Measure every depth, save and show."""
    found = record.started("export", python) | {"rounds": rounds, "tiny": tiny, "depths": []}
    warm = weights(place, 1, tiny=True)
    for command in commands(warm, place, python).values():  # what is read from disk once
        spent(command, place)
    for depth in layers:
        found["depths"].append(
            {"layers": depth, "rows": measured(weights(place, depth, tiny=tiny), place, python, rounds)}
        )
        record.save(place, "export", found)
    print(shown(found))


def weights(place: Path, depth: int, *, tiny: bool) -> Path:
    """A folder with a BERT of so many layers, and example inputs in it. Raises RuntimeError."""
    folder = place / "depths" / f"bert-{depth}{'-tiny' if tiny else ''}"
    if not (folder / "example.npz").is_file():
        config = {"num_hidden_layers": depth}
        _, reason = run(
            sys.executable, "weights", "", str(folder / "-"), {"name": "bert", "tiny": tiny, "config": config}
        )
        if reason:
            raise RuntimeError(f"a BERT of {depth} layers cannot be made: {reason}")
        np.savez(folder / "example.npz", **networks.feeds("bert", 2, tiny=tiny))  # type: ignore[arg-type]
    return folder


def commands(folder: Path, place: Path, python: Path) -> dict[str, list[str]]:
    """What is typed, by name; Optimum's is empty where it is not installed."""
    example, out = str(folder / "example.npz"), str(place / "exported" / "model.onnx")
    ours = [sys.executable, "-m", "gelu_deploy", "export", str(folder), "--data", example, "-o", out]
    arguments = json.dumps({"name": "bert", "feeds": example})
    theirs = ["export", "onnx", "--model", str(folder), "--task", "feature-extraction", str(place / "exported")]
    return {
        BASE: [sys.executable, str(PROGRAM), "torch_onnx", str(folder), out, arguments],
        FAST: [*ours, "--no-verify"],
        OURS: ours,
        OPTIMUM: [str(python.with_name("optimum-cli")), *theirs] if python.is_file() else [],
    }


def measured(folder: Path, place: Path, python: Path, rounds: int) -> list[dict[str, Any]]:
    """A row for each program, their order turned round by round."""
    typed = commands(folder, place, python)
    found: dict[str, list[Spent]] = {name: [] for name in typed}
    for turn in range(rounds):
        names = list(typed)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            found[name].append(spent(typed[name], place))
    base = np.array([one.seconds for one in found[BASE]])
    return [_row(name, runs, base) for name, runs in found.items()]


def spent(command: Sequence[str], place: Path) -> Spent:
    """Run a program to its end, in a folder for what it writes that is removed afterwards."""
    if not command:
        return Spent(0.0, 0.0, MISSING)
    (place / "exported").mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    with (place / "said.txt").open("w+b") as said:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=said, stderr=said, env=environment)  # noqa: S603  # our own words
        _, status, usage = os.wait4(child.pid, 0)  # the only call that tells the memory of this one child
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        last = said.read().decode(errors="replace").strip().rpartition("\n")[2].strip()
    shutil.rmtree(place / "exported")
    reason = "" if child.returncode == 0 else last or f"it ended with exit code {child.returncode}"
    return Spent(seconds, usage.ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0), reason)


def _row(name: str, runs: Sequence[Spent], base: np.ndarray[Any, Any]) -> dict[str, Any]:
    reason = next((one.reason for one in runs if one.reason), "")
    if reason:
        return {"variant": name, "reason": reason}
    seconds = np.array([one.seconds for one in runs])
    peak = max(one.peak for one in runs) / 1e6
    spread = record.spread(seconds / base)
    return {"variant": name, "seconds": float(np.median(seconds)), **spread, "megabytes": peak, "reason": ""}


def shown(found: Mapping[str, Any]) -> str:
    """The table."""
    rows = [(str(depth["layers"]), row) for depth in found["depths"] for row in depth["rows"]]
    return record.table(HEADERS, ([layers, row["variant"], *_cells(row)] for layers, row in rows))


def _cells(row: Mapping[str, Any]) -> list[str]:
    if "ratio" not in row:
        return ["", "", "", row["reason"]]
    return [f"{row['seconds']:.1f}", record.times(row), f"{row['megabytes']:.0f}", ""]

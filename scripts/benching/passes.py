"""``scripts/bench passes``: finding and fusing the GELUs of graphs of 500 to 50,000 operators, beside the peers.

One process for each tool, in turns; then a model of 4 GB of weights, inspected and rewritten by a child each, whose
peak memory is read. It judges nothing.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benching import fusing, large, record
from benching.workshop import MISSING

OPERATORS, EVERY, ROUNDS = (500, 1_500, 5_000, 15_000, 50_000), 25, 5
"""Sizes, operators for one GELU, and turns of every tool."""
LONG = 20.0
"""Seconds of one run after which a tool is given no more turns, and no larger graph."""
TOOLS = {"gelu_deploy": "gelu_deploy", "onnxscript rewriter": "onnxscript", "ORT Python fusion": "onnxruntime"}
HEADERS = (">operators", ">GELUs", "tool", ">seconds", ">time / ours", ">found", "")


def passes(
    place: Path, python: Path, *, operators: Sequence[int] = OPERATORS, rounds: int = ROUNDS, large_too: bool = True
) -> None:
    """Measure, save and show."""
    found = record.started("passes", python) | {"rounds": rounds, "sizes": []}
    with ExitStack() as stack:
        tools = {name: _tool(stack, name, python) for name in TOOLS}
        reasons = {name: MISSING for name, tool in tools.items() if tool is None}
        for size in operators:
            found["sizes"].append(measured(tools, reasons, size, rounds))
    found["growth"] = {name: growth(found["sizes"], name) for name in TOOLS}
    found["weights"] = weights(place) if large_too else []
    record.save(place, "passes", found)
    print(shown(found))


def _tool(stack: ExitStack, name: str, python: Path) -> subprocess.Popen[str] | None:
    """Its process, None where its Python is not there."""
    program = Path(sys.executable) if name == next(iter(TOOLS)) else python
    return stack.enter_context(_started(program, TOOLS[name])) if program.is_file() else None


@contextmanager
def _started(python: Path, tool: str) -> Generator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    words = [str(python), str(Path(fusing.__file__)), tool]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as child:  # noqa: S603
        try:
            yield child
        finally:
            child.kill()


def measured(
    tools: Mapping[str, subprocess.Popen[str] | None], reasons: dict[str, str], size: int, rounds: int
) -> dict[str, Any]:
    """A row for every tool; one that takes too long gets a reason, which the larger sizes inherit."""
    sites = size // EVERY
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tools}
    told = dict(reasons)
    for _ in range(rounds):
        for name in [one for one in tools if one not in reasons]:
            child = tools[name]
            assert child is not None
            answer = _asked(child, size, sites)
            if answer is None:
                reasons[name] = told[name] = "it failed"
                continue
            found[name].append(answer)
            if answer["seconds"] > LONG:
                reasons[name] = f"it took {answer['seconds']:.0f} s for {size} operators"
    base = [one["seconds"] for one in next(iter(found.values()))]
    return {"operators": size, "gelus": sites, "rows": [_row(n, a, base, told.get(n, "")) for n, a in found.items()]}


def _asked(child: subprocess.Popen[str], size: int, sites: int) -> dict[str, Any] | None:
    """What one run took; None if the tool has ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    if child.poll() is None:
        child.stdin.write(f"{size} {sites}\n")
        child.stdin.flush()
    line = child.stdout.readline()
    answer: dict[str, Any] | None = json.loads(line) if line else None
    return answer


def _row(name: str, answers: Sequence[Mapping[str, Any]], base: Sequence[float], reason: str) -> dict[str, Any]:
    if not answers:
        return {"variant": name, "reason": reason}
    seconds = [one["seconds"] for one in answers]
    ratios = np.array(seconds) / np.array(base[: len(seconds)])
    spread = record.spread(ratios)
    return {"variant": name, "seconds": float(np.median(seconds)), **spread, "gelus": answers[0]["gelus"], "reason": ""}


def growth(sizes: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The power of the number of operators that a tool's time grows with, from the first of its sizes to the last."""
    rows = [(size["operators"], row) for size in sizes for row in size["rows"] if row["variant"] == name]
    points = [(operators, row["seconds"]) for operators, row in rows if "seconds" in row]
    if len(points) < 2:
        return None
    (least, short), (most, long) = points[0], points[-1]
    return math.log(long / short) / math.log(most / least)


def weights(place: Path) -> list[dict[str, Any]]:
    """A model with 4 GB of weights in a file beside it, inspected, then rewritten and saved."""
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(dir=place) as folder:
        path = Path(folder) / "large.onnx"
        large.write(path)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        for verb in ("inspect", "rewrite"):
            command = [sys.executable, large.__file__, verb, str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  # our own file
            rows.append({"verb": verb, "gigabytes": size / 1e9, **json.loads(done.stdout)})
    return rows


def shown(found: Mapping[str, Any]) -> str:
    """The table, how the times grow, and the large model."""
    rows = [(str(size["operators"]), str(size["gelus"]), row) for size in found["sizes"] for row in size["rows"]]
    table = record.table(HEADERS, ([*head, row["variant"], *_cells(row)] for *head, row in rows))
    powers = ", ".join(f"{name} {power:.2f}" for name, power in found["growth"].items() if power is not None)
    large = [
        f"{one['gigabytes']:.1f} GB of weights, {one['verb']}: {one['gelus']} GELUs, {one['seconds']:.1f} s, "
        f"peak memory {one['megabytes']:.0f} MB"
        for one in found["weights"]
    ]
    return "\n".join([table, "", f"Times grow with this power of the number of operators: {powers}.", *large])


def _cells(row: Mapping[str, Any]) -> list[str]:
    if "ratio" not in row:
        return ["", "", "", row["reason"]]
    return [f"{row['seconds']:.3f}", record.times(row), str(row["gelus"]), ""]

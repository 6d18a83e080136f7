"""How every measurement is shown and kept: one table in Markdown, one file of JSON with the machine and the versions.

It knows nothing of what was measured.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from gelu_deploy.quantization.measures.cpu import here
from gelu_deploy.runtime.providers import available_threads
from gelu_deploy.strict_json import as_json

OURS = ("onnxruntime", "torch", "transformers", "onnxscript", "openvino", "numpy")
PEERS = ("optimum-onnx", "transformers", "torch", "onnxruntime", "onnxscript", "onnxsim", "onnxslim")
_ASK = """
import sys
from importlib.metadata import version
for name in sys.argv[1:]: print(name, version(name))
"""


def machine() -> dict[str, Any]:
    """What it was measured on, and how busy that was before."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "kind": here().name,
        "cores": available_threads(),
        "gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 2),
    }


def versions(python: Path | None = None) -> dict[str, str]:
    """Of the packages that are compared, in this Python or in the peers', which may not be there."""
    if python is None:
        return {"Python": platform.python_version(), **{name: found for name in OURS if (found := _version(name))}}
    if not python.is_file():
        return {}
    asked = [str(python), "-c", _ASK, *PEERS]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)  # noqa: S603  # our own words
    return dict(line.split() for line in done.stdout.splitlines())


def started(what: str, peers: Path) -> dict[str, Any]:
    """The head of a record."""
    return {
        "schema": f"gelu-deploy/bench-{what}/1",
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(),
        "peers": versions(peers),
    }


def save(place: Path, what: str, record: Mapping[str, Any]) -> None:
    """Write the record; a run that is cut short leaves what it had."""
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{what}.json").write_text(as_json(record), encoding="utf-8")


def read(place: Path, what: str) -> dict[str, Any] | None:
    """A record, None where that was not measured."""
    file = place / f"{what}.json"
    found: dict[str, Any] | None = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return found


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown that can be read as it is; ``>`` before a header sets its column to the right."""
    cells = [[header.removeprefix(">") for header in headers], *([_cell(cell) for cell in row] for row in rows)]
    right = [header.startswith(">") for header in headers]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        padded = [f"{c:>{w}}" if r else f"{c:{w}}" for c, w, r in zip(row, widths, right, strict=True)]
        return f"| {' | '.join(padded)} |"

    marks = ["-" * (w - 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True)]
    return "\n".join([line(cells[0]), line(marks), *map(line, cells[1:])])


def spread(ratios: Sequence[float] | np.ndarray[Any, Any]) -> dict[str, float]:
    """Median, and the tenth and ninetieth percentile: what every ratio is kept as."""
    middle, low, high = (float(value) for value in np.quantile(ratios, (0.5, 0.1, 0.9)))
    return {"ratio": middle, "low": low, "high": high}


def times(found: Mapping[str, float | None]) -> str:
    """``1.24 (1.20 to 1.31)``."""
    return f"{found['ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())

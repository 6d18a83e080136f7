"""Keeps a choice in a file, so that it is measured once for a model, a machine and the versions that run there.

The file is named by all that the choice depends on: a change to any of it measures anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from gelu_deploy import artifact, provenance, user_cache
from gelu_deploy.arrays import Array
from gelu_deploy.graph import hollow
from gelu_deploy.options import ExportOptions
from gelu_deploy.pipeline import Pipeline
from gelu_deploy.results import ChoiceResult
from gelu_deploy.timing import machine

VERSION = 1
DEPENDS = ("spelling", "accept_error", "fp16_safe", "exclude", "target", "simplify", "provider", "max_form_error")
"""Options that decide what competes and what may be taken."""
GPUS = Path("/proc/driver/nvidia/gpus")


def place(start: Pipeline, options: ExportOptions, opset: int) -> Path:
    """Where the choice for this graph lies, or will lie."""
    known = {
        "version": VERSION,
        "graph": hollow.digest(start.model, start.held),
        "cases": [_digest(case.inputs) for case in start.cases],
        "limits": asdict(start.limits),
        "options": {name: getattr(options, name) for name in DEPENDS},
        "opset": opset,
        "data": [Path(options.data or "").name, provenance.digest(options.data)],
        "metric": [options.metric, provenance.digest(options.metric)],
        "machine": [machine.here(), _gpus()],
    }
    name = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    return user_cache.folder("form-auto") / f"{name}.json"


def load(path: Path) -> ChoiceResult | None:
    """What was kept there; None where there is nothing, or nothing sound."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    sound = isinstance(found, dict) and found.keys() == ChoiceResult.__annotations__.keys()
    return cast("ChoiceResult", found) if sound else None


def save(path: Path, result: ChoiceResult) -> list[str]:
    """Keep it; a note where that cannot be."""
    try:
        with user_cache.replacing(path) as part:
            part.write_text(artifact.to_json(result), encoding="utf-8")
    except OSError as error:
        return [f"the choice of --form auto is not kept: {error.strerror or error}"]
    return []


def _digest(arrays: Mapping[str, Array]) -> str:
    total = hashlib.sha256()
    for name, array in arrays.items():
        total.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode() + array.tobytes())
    return total.hexdigest()


def _gpus() -> list[str]:
    """Models of the NVIDIA devices, as their driver tells."""
    told = (file.read_text(encoding="utf-8", errors="replace") for file in sorted(GPUS.glob("*/information")))
    return [line.strip() for text in told for line in text.splitlines() if line.startswith("Model")]

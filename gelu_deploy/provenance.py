"""What a finished model says of itself: versions, what it was made from, what was asked for.

Nothing local goes in: no path, no user, no time.
"""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gelu_deploy.options import ExportOptions
from gelu_deploy.results import ExportResult

PACKAGES = ("gelu-deploy", "torch", "onnxscript", "onnx", "onnx-ir", "onnxsim", "onnxruntime", "onnxruntime-gpu")
ASKED = (
    *("target", "form", "spelling", "exclude", "simplify", "verify", "atol", "rtol", "max_form_error"),
    *("trust_pickle", "trust_code", "allow_class", "strict", "arch_arg", "dtype"),
)
"""Options that decide what the file is, or what was trusted to make it."""


def describe(result: ExportResult, options: ExportOptions, model: object) -> dict[str, Any]:
    """Metadata of the artifact, by key."""
    return {
        "provenance": {
            "source": _without_folders(result["source"]),
            "input_sha256": digest(model),
            "notes": [_without_folders(note) for note in result["notes"]],
            "exporter": _without_folders(result["exporter"]),
            "versions": versions(),
            "options": {name: getattr(options, name) for name in ASKED},
        },
        "sites": [
            {key: value for key, value in site.items() if key not in ("kernels", "reason")} for site in result["sites"]
        ],
    }


def _without_folders(text: str) -> str:
    """The text with every path cut down to its last part."""
    return re.sub(r"(?<![^\s:'\"(])[^\s:'\"(,;]*/(?=[^\s/])", "", text)


def digest(model: object) -> str:
    """SHA-256 of the source: of the file, or of a folder's files in the order of their names; ``""`` in memory."""
    path = Path(model.rpartition(":")[0] if ".py:" in model else model) if isinstance(model, str) else Path()
    files = [path] if path.is_file() else sorted(path.glob("*")) if isinstance(model, str) and path.is_dir() else []
    digests = [_sha256(file) for file in files if file.is_file()]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest() if digests else ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def versions() -> dict[str, str]:
    """The installed packages that decide what a file is."""
    found = dict[str, str]()
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

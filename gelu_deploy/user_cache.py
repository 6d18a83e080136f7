"""The user's folder for what can be made again, and files in it that appear whole or not at all.

It knows nothing of what they hold.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def folder(name: str) -> Path:
    """``$XDG_CACHE_HOME/gelu-deploy/NAME``, which need not exist yet; ``~/.cache`` where the variable is no path."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "gelu-deploy" / name


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """An empty file to write to, which takes the place of ``path`` when the block ends well. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    os.close(handle)
    try:
        yield Path(name)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)

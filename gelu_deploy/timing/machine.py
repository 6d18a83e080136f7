"""What times are of: the processor, the threads that this process may use, the versions that decide what runs."""

from __future__ import annotations

import platform
from pathlib import Path

from gelu_deploy import provenance
from gelu_deploy.runtime.providers import available_threads


def here() -> dict[str, str]:
    """This machine, by the names that reports use."""
    return {"cpu": _cpu(), "threads": str(available_threads()), **provenance.versions()}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())

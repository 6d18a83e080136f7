"""How much memory this process has used. It knows the system and nothing of models."""

from __future__ import annotations

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak() -> int:
    """The most bytes that were resident at any time since this program was started.

    Linux counts them anew when a program is executed. ``ru_maxrss`` there begins with the parent's, so that it is only
    used where there is no ``/proc``; its unit is the byte on macOS and the kilobyte elsewhere.
    """
    if STATUS.is_file():
        lines = STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        kilobytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
        if kilobytes:
            return 1024 * kilobytes[0]
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

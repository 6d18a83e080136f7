"""Text that breaks where a reader of module names and paths would break it; it knows nothing of tables or results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.containers import Lines
from rich.text import Text

_AFTER_PART = re.compile(r"(?<=[^\d][./])|(?<=[./])(?=\D)")
"""Behind the dots and slashes of names, not within numbers."""
_BEFORE_WORD = re.compile(r"(?=_)")


class Cell(Text):
    """Text whose words, where they are too wide, break after a dot or slash, else before an underscore."""

    def wrap(self, console: Console, width: int, **how: Any) -> Lines:
        """The lines of at most ``width`` cells; see :meth:`rich.text.Text.wrap`."""
        broken = re.sub(r"\S+", lambda word: _broken(word[0], width), self.plain)
        return Text(broken, self.style).wrap(console, width, **how)


def _broken(word: str, width: int) -> str:
    """The word on as few lines as its parts fit on."""
    parts = _AFTER_PART.split(word)
    smaller = (_BEFORE_WORD.split(part) if cell_len(part) > width else [part] for part in parts)
    return "\n".join(_joined((part for group in smaller for part in group), width))


def _joined(parts: Iterable[str], width: int) -> list[str]:
    lines = [""]
    for part in parts:
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return lines

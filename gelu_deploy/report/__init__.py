"""A comparison as files for people and programs: JSON, Markdown, and one HTML file that needs nothing but itself.

``words`` makes numbers text, ``columns`` a table of the variants; ``scatter``, ``bars`` and ``histograms`` say where
the parts of a picture are, on the axes of ``scales``; ``markdown`` and ``page`` write, the latter with its templates.
It knows the result and nothing of how it was measured.
"""

from __future__ import annotations

from pathlib import Path

from gelu_deploy.artifact.staging import staging
from gelu_deploy.results import CompareResult
from gelu_deploy.strict_json import as_json

__all__ = ["NAMES", "write"]

NAMES = ("report.json", "report.md", "report.html")


def write(result: CompareResult, folder: Path) -> list[Path]:
    """Write ``report.json``, ``report.md`` and ``report.html``, each whole, in place of what has these names.

    Args:
        result: What ``compare`` found; the JSON is what ``--json`` writes of it.
        folder: Where; it must be there.

    Returns:
        The paths of the three files.

    Raises:
        SetupError: Jinja is not installed.
        OutputError: They cannot be written.
    """
    from gelu_deploy.report import markdown, page

    texts = (as_json(result), markdown.text(result), page.html(result))
    with staging(folder / NAMES[-1], overwrite=True) as stage:
        for name, text in zip(NAMES, texts, strict=True):
            # Names of files may hold bytes that are no text.
            (stage.folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        stage.publish()
    return [folder / name for name in NAMES]

"""Where a comparison goes: a folder with a report and every file that was made, all of one run.

It knows nothing of what is in the files, but that ``report.json`` lists them.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gelu_deploy.artifact.staging import Staging, reporting, staging
from gelu_deploy.errors import OutputError

INDEX = "report.json"


class Folder:
    """A folder in the making; see :func:`opened`.

    Attributes:
        path: As the user named it.
        stage: Where files are written, each under its final name.
    """

    def __init__(self, path: Path, place: Staging) -> None:
        self.path = path
        self.stage = place.folder
        self._place = place

    def named(self, name: str) -> str:
        """The final path of one of its files."""
        return str(self.path / name)

    def names(self) -> set[str]:
        """Of the files that have been written so far."""
        return {file.name for file in self.stage.iterdir()}

    def publish(self, reports: Iterable[str]) -> None:
        """Move all files into place, :data:`INDEX` last, and remove those of the earlier run that are not made anew.

        The reports of an earlier run go first: from then on until the end there is none, and never one beside files of
        another run. Files that no report lists are left alone.

        Raises:
            OutputError: The filesystem refuses.
        """
        old = _listed(self.path / INDEX) - self.names()
        with reporting(self.path):
            for name in reports:
                (self.path / name).unlink(missing_ok=True)
            self._place.publish()
            for file in (self.path / name for name in old):
                if file.is_file():
                    file.unlink()


@contextmanager
def opened(path: Path, *, overwrite: bool, used: Iterable[Path]) -> Generator[Folder]:
    """A folder to fill; without :meth:`Folder.publish` it is left as it was.

    Args:
        path: Its place; it is made where it is missing.
        overwrite: Whether there may be something in it.
        used: Files that are read meanwhile; they must not be in it.

    Raises:
        OutputError: At once, when nothing could be written there.
    """
    for file in used:
        if path.resolve() in file.resolve().parents:
            raise OutputError(f"{file} is in {path}, whose files are replaced. Name another folder with --output.")
    made = _entered(path, overwrite=overwrite)
    try:
        with staging(path / INDEX, overwrite=True) as place:
            yield Folder(path, place)
    finally:
        if made:
            with suppress(OSError):  # there is something in it
                path.rmdir()


def _entered(path: Path, *, overwrite: bool) -> bool:
    """Make the folder, or look whether it may be used; whether it was made."""
    with reporting(path):
        if not path.exists():
            path.mkdir()
            return True
        if not path.is_dir():
            raise OutputError(f"{path} is no folder; name one with --output for the report and the files beside it.")
        held = [
            entry.name for entry in path.iterdir() if not entry.name.startswith(f".{INDEX}.")
        ]  # stages of the killed
    if held and not overwrite:
        raise OutputError(
            f"{path} is not empty. Pass --overwrite to replace an earlier comparison, or name another folder."
        )
    return False


def _listed(index: Path) -> set[str]:
    """The names of the files that an earlier report lists."""
    with suppress(OSError, ValueError):
        report: Any = json.loads(index.read_text(encoding="utf-8"))
        if isinstance(report, dict) and str(report.get("schema", "")).startswith("gelu-deploy/compare/"):
            return {Path(str(file)).name for file in report.get("files", [])}
    return set()

"""Files that appear whole or not at all: written in a folder beside the target, then moved into place.

Killing the process at any instant leaves what was there before or what was to come. Two writers of one target take
turns when they move their files. The module knows nothing of what the files hold.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from gelu_deploy.errors import OutputError

_COMPANION = ".report.json"  # the longest ending that a file beside the target has, with its whole name before it
_HIDDEN = 200  # bytes of the target's name that the names of its lock and stage keep


class Staging:
    """A folder on the target's filesystem whose files :meth:`publish` moves beside the target.

    Attributes:
        target: The final path of the main file; a symbolic link is followed.
        folder: Where to write, each file under its final name.
    """

    def __init__(self, target: Path, home: Path, *, overwrite: bool) -> None:
        self.target = target
        self.folder = home / "files"
        self._overwrite = overwrite
        self.clear()

    def clear(self) -> None:
        """Forget what was written so far."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def publish(self) -> list[Path]:
        """Move every file into place, the target last; return their final paths in that order.

        Raises:
            OutputError: Another writer made the target meanwhile, or the filesystem refuses; the target is as it was.
        """
        with reporting(self.target), locked(self.target):
            _refuse_existing(self.target, overwrite=self._overwrite)
            staged = sorted(self.folder.iterdir(), key=lambda file: (file.name == self.target.name, file.name))
            for file in staged:
                _fsync(file)
            for file in staged:
                if file.name == self.target.name:
                    _fsync_folder(self.target.parent)
                file.replace(self.target.with_name(file.name))
            _fsync_folder(self.target.parent)
        return [self.target.with_name(file.name) for file in staged]


@contextmanager
def staging(target: str | os.PathLike[str], *, overwrite: bool) -> Generator[Staging]:
    """A place to write what shall become ``target``; whatever is not published is gone afterwards.

    Args:
        target: The main file's path.
        overwrite: Whether an existing file may be replaced.

    Raises:
        OutputError: At once, when nothing could be written there: it exists, is no file, or its folder is missing or
            not writable, or its name is too long.
    """
    with reporting(target):
        path = Path(os.path.realpath(target))
        _refuse_hopeless(path)
        _refuse_existing(path, overwrite=overwrite)
        home, lock = _open_stage(path)
    try:
        with reporting(path):
            stage = Staging(path, home, overwrite=overwrite)
        yield stage
    finally:
        shutil.rmtree(home, ignore_errors=True)
        os.close(lock)


@contextmanager
def reporting(path: str | os.PathLike[str]) -> Generator[None]:
    """Whatever the operating system refuses inside the block is an :class:`OutputError` that names ``path``."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{os.fspath(path)} cannot be written: {error.strerror or error}. What was there before is unchanged. "
            "Make room or rights there, or name another place."
        ) from error


@contextmanager
def locked(target: Path) -> Generator[None]:
    """Only one process at a time is inside for one target; the others wait."""
    path = target.with_name(f"{_hidden(target)}.lock")
    handle = _lock(path)
    while not _is_at(handle, path):  # the one we waited for took the file away with it
        os.close(handle)
        handle = _lock(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def shortened(name: str, limit: int) -> str:
    """The start of a file's name that is at most ``limit`` bytes of UTF-8."""
    return os.fsencode(name)[:limit].decode("utf-8", "ignore")


def _refuse_hopeless(path: Path) -> None:
    if not path.parent.is_dir():
        if path.parent.exists():
            raise OutputError(f"{path} cannot be written: {path.parent} is no folder. Name another place.")
        raise OutputError(f"{path} cannot be written: the folder {path.parent} does not exist. Make it first.")
    longest = len(os.fsencode(path.name.removesuffix(".onnx") + _COMPANION))
    limit = os.pathconf(path.parent, "PC_NAME_MAX")
    if max(longest, len(os.fsencode(path.name))) > limit:
        raise OutputError(
            f"{path} cannot be written: its name, with {_COMPANION!r} after it, is {longest} bytes long and "
            f"the filesystem allows {limit}. Choose a shorter one."
        )
    if path.is_dir():
        raise OutputError(f"{path} is a folder; name a file to write.")
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} is neither a file nor free for one: it is a device, a pipe or a socket.")


def _refuse_existing(path: Path, *, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists already. Pass --overwrite to replace it, or name another file.")


def _open_stage(target: Path) -> tuple[Path, int]:
    """A fresh stage and the handle whose lock says that its owner lives; stages of dead owners are removed."""
    prefix = f"{_hidden(target)}.stage-"
    with locked(target):
        for other in target.parent.iterdir():
            if other.name.startswith(prefix):
                _remove_if_abandoned(other)
        home = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
        return home, _lock(home / "lock")


def _remove_if_abandoned(home: Path) -> None:
    with suppress(OSError):  # another user's stage, or one that still lives
        handle = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(home, ignore_errors=True)
        finally:
            os.close(handle)


def _lock(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fsync_folder(path: Path) -> None:
    with suppress(OSError):  # some network filesystems cannot; the files themselves are on disk
        _fsync(path)


def _hidden(target: Path) -> str:
    return f".{shortened(target.name, _HIDDEN)}"

"""The process around one command: its standard streams, its signals, what the terminal can show, the files it leaves.

It knows nothing of models, verbs or what a result means.
"""

from __future__ import annotations

import atexit
import codecs
import io
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console, RenderableType

from gelu_deploy import progress
from gelu_deploy.errors import OutputError

PLAINER = {"→": ">", "×": "x", "…": "~", "·": "-", "≤": "<", "≥": ">", "σ": "s", "α": "a", "’": "'"}


class Terminated(BaseException):
    """SIGTERM arrived; like KeyboardInterrupt no ``except Exception`` may swallow it."""


def prepare() -> None:
    """Make stdout safe to write to: closed, it is the null device; in a poor encoding it says a plainer character."""
    for descriptor, stream in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, stream) is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            setattr(sys, stream, os.fdopen(descriptor, "w", encoding="utf-8"))
    codecs.register_error("gelu-deploy", _plainer)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="gelu-deploy")


def _plainer(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAINER.get(character, "?") for character in error.object[error.start : error.end]), error.end


@contextmanager
def sigterm_raises() -> Generator[None]:
    """Inside the block SIGTERM raises :class:`Terminated`, so that whatever cleans up after itself does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated


@contextmanager
def stdout_for_results_only() -> Generator[None]:
    """Whatever a library or the user's own file prints meanwhile goes to stderr, from native code and children too."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def spinner(first: str) -> Generator[None]:
    """The current step of a verb on stderr, for a person at a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(file=sys.stderr).status(first) as status, progress.listening(status.update):
        yield


class Page:
    """Output in the making: rich would leave by SystemExit if the reader of stdout had gone.

    Attributes:
        console: As wide as the terminal (80 without one), coloured on a terminal only.
    """

    def __init__(self) -> None:
        self._text = io.StringIO()
        self.console = Console(
            file=self._text, width=Console().width, force_terminal=sys.stdout.isatty(), highlight=False
        )

    def write(self) -> None:
        """All of it to stdout. Raises OutputError."""
        write_stdout("".join(f"{line.rstrip()}\n" for line in self._text.getvalue().splitlines()))


def leave(code: int) -> NoReturn:
    """End the process without taking a network of gigabytes apart first, which can take longer than a second.

    What was registered to be done at the end is done, and everything said is written.
    """
    vars(atexit)["_run_exitfuncs"]()  # nothing public has it done
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def show(parts: list[RenderableType]) -> None:
    """Renderables to stdout."""
    page = Page()
    for part in parts:
        page.console.print(part)
    page.write()


def write_stdout(text: str) -> None:
    """The text, at once. A reader that has gone is no error.

    Raises:
        OutputError: It cannot be written, for instance to a full disk.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered must not fail again at exit
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"The result cannot be written to standard output: {error.strerror}.") from None


def write_file(path: Path, text: str) -> None:
    """All of the text or nothing; a device or pipe is written to, not replaced.

    Raises:
        OutputError: It cannot be written.
    """
    path = path.resolve()
    special = path.exists() and not path.is_file()
    part = path if special else path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        if not special:
            part.unlink(missing_ok=True)


def bug_report(error: Exception) -> str:
    """What to tell the user of an exception that should not be; its traceback goes to a file that the text names."""
    import tempfile
    import traceback

    lines = "".join(traceback.format_exception(error))
    what = f"This is a bug of gelu-deploy, not a fault of your input. {type(error).__name__}: {error}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="gelu-deploy-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(lines)
    except OSError:
        return f"{what}\n{lines}"
    return f"{what}\nThe traceback is in {file.name}; please report it with that file."

"""What can go wrong, as one tree; each class owns the exit code of the command that meets it.

::

    GeluDeployError            any failure that is the input's, the machine's or the user's
    ├── UsageError         2   an option that cannot be meant
    │   └── TargetError    2   FILE.py:NAME or MODULE:NAME that names nothing loadable
    ├── UnsafeError        3   the file would run code and nobody said that it may
    ├── ModelError         4   not a usable model
    ├── LimitError         5   a time or memory limit was reached
    ├── NativeCrash        6   a library below us died; contained
    └── SetupError         7   the environment or the output: a missing package, a full disk
        └── OutputError    7   the result cannot be written where it was asked for

Every message says what came, what was expected and what to do. Anything that is not a
:class:`GeluDeployError` is a bug of ours (exit code 70). A verdict that failed is no
exception: it is a result, and the command ends with 1.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_PASS = 0
EXIT_GATE = 1
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class GeluDeployError(Exception):
    """Root of the tree; never raised itself."""

    exit_code: ClassVar[int] = EXIT_BUG


class UsageError(GeluDeployError):
    """An option, or a combination of options, that cannot be meant."""

    exit_code = 2


class TargetError(UsageError):
    """``FILE.py:NAME`` or ``MODULE:NAME`` that names nothing loadable."""


class UnsafeError(GeluDeployError):
    """The file would run code, and no ``--trust-…`` option allows it."""

    exit_code = 3


class ModelError(GeluDeployError):
    """The file is not a model, or not one that can be used here."""

    exit_code = 4


class LimitError(GeluDeployError):
    """A time or memory limit was reached."""

    exit_code = 5


class NativeCrash(GeluDeployError):
    """A native library died in a child process; the parent goes on."""

    exit_code = 6


class SetupError(GeluDeployError):
    """The environment lacks something: a package, a provider, room on the disk."""

    exit_code = 7


class OutputError(SetupError):
    """The result cannot be written where it was asked for."""

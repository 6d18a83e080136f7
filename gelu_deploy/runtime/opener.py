"""Opens a session from plain values, for a process that is told in JSON what to run.

It knows nothing of who tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gelu_deploy.arrays import Arrays
from gelu_deploy.runtime import Session
from gelu_deploy.runtime.settings import Settings


def session(model: str, provider: str, settings: Mapping[str, Any]) -> Session:
    """The session of a file with these settings (as :meth:`Settings.to_json` gives them), whatever it has stored.

    Raises UsageError, SetupError and ModelError as :class:`Session` does.
    """
    return Session(model, provider, settings=Settings.from_json(settings))


def renamed(names: Mapping[str, str], **opening: Any) -> Callable[[Arrays], Arrays]:
    """The same for a file whose inputs have other names than what comes: ``names`` has theirs by those that come."""
    run = session(**opening)
    return lambda feeds: run({names[name]: array for name, array in feeds.items()})

"""What a verb is doing right now, and how long each step took.

A verb says ``with step("export"):``; whoever called it may listen (:func:`listening`) or keep the seconds
(:func:`recorded`). With nobody listening nothing happens. It knows neither verbs nor terminals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class _Step:
    name: str
    inner: float = 0.0


_open: ContextVar[_Step | None] = ContextVar("_open", default=None)
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("_listener", default=None)
_seconds: ContextVar[dict[str, float] | None] = ContextVar("_seconds", default=None)


@contextmanager
def step(name: str) -> Generator[None]:
    """One step of a verb, named for a reader; steps nest, and a repeated name adds up."""
    outer, this = _open.get(), _Step(name)
    token = _open.set(this)
    _tell(this)
    start = time.perf_counter()
    try:
        yield
    finally:
        took = time.perf_counter() - start
        _open.reset(token)
        seconds = _seconds.get()
        if seconds is not None:
            seconds[name] = seconds.get(name, 0.0) + took - this.inner
        if outer is not None:
            outer.inner += took
            _tell(outer)


@contextmanager
def recorded() -> Generator[dict[str, float]]:
    """Seconds of each step inside the block, filled in as it ends; an outer step leaves out its inner ones.

    A verb that calls another one has its steps among its own.
    """
    outer, seconds = _seconds.get(), dict[str, float]()
    token = _seconds.set(seconds)
    try:
        yield seconds
    finally:
        _seconds.reset(token)
        if outer is not None:
            for name, took in seconds.items():
                outer[name] = outer.get(name, 0.0) + took


@contextmanager
def listening(listener: Callable[[str], None]) -> Generator[None]:
    """Inside the block ``listener`` is called with the name of the step that goes on, whenever it changes."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def _tell(current: _Step) -> None:
    listener = _listener.get()
    if listener is not None:
        listener(current.name)

"""Variants that need no runtime: each function is an opener that a child process is told to call."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, Any]]
Run = Callable[[Arrays], Arrays]
MEGABYTE = 1_000_000


def modules() -> Run:
    """Answers which heavy packages the process has imported."""
    heavy = ("onnxruntime", "onnx", "onnx_ir", "torch", "scipy", "cyclopts")
    return lambda _: {"loaded": np.array([name for name in heavy if name in sys.modules], np.str_)}


def logging(name: str, log: str) -> Run:
    """Writes its name into a file at every run."""

    def run(feeds: Arrays) -> Arrays:
        with Path(log).open("a") as file:
            file.write(f"{name}\n")
        return feeds

    return run


def sleeping(seconds: float, every: int = 1) -> Run:
    """Takes so long in every n-th run."""
    numbers = itertools.count()

    def run(feeds: Arrays) -> Arrays:
        if next(numbers) % every == 0:
            time.sleep(seconds)
        return feeds

    return run


def allocating(megabytes: int, passing: int = 0) -> Run:
    """Holds some memory, and needs some more for a moment in each run."""
    held = np.ones(megabytes * MEGABYTE, np.uint8)

    def run(_: Arrays) -> Arrays:
        return {"sum": held.sum(), "moment": np.ones(passing * MEGABYTE, np.uint8).sum()}

    return run


def chatty(lines: int) -> Run:
    """Says more than a pipe holds in every run, on stderr and on stdout."""

    def run(feeds: Arrays) -> Arrays:
        for number in range(lines):
            sys.stderr.write(f"warning {number}: {'.' * 100}\n")
            os.write(1, f"progress {number}: {'.' * 100}\n".encode())
        return feeds

    return run


def refusing() -> Run:
    """Cannot be opened."""
    raise ValueError("the file is damaged:\n  no weights")


def failing(runs: int, kill: bool = False) -> Run:
    """Fails, or dies, after so many runs."""
    numbers = itertools.count()

    def run(feeds: Arrays) -> Arrays:
        if next(numbers) < runs:
            return feeds
        if kill:
            sys.stderr.write("one moment\nout of something\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("not today")

    return run


def helped(log: str) -> Run:
    """Starts a process of its own, writes both numbers into a file, and never ends."""
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(log).write_text(f"{os.getpid()} {helper.pid} .")
    return sleeping(600)

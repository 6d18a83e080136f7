"""Timed files as a person reads them.

It knows the shape of the result and nothing of how it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.console import RenderableType

from gelu_deploy.cli import layout
from gelu_deploy.results import BenchedFile, BenchResult

TIMES = ["file", "<p50", "<p90", "<p99 ms", "<of the first", "<rows/s", "<memory"]
FILES = ["file", "precision", "<size", "<integer", "kernels per GELU", "operators on", "opened with"]


def render(result: BenchResult) -> list[RenderableType]:
    """What ran, how long it took, and what of it ran where."""
    return [
        layout.facts(_facts(result)),
        layout.table(TIMES, [_times(one) for one in result["files"]]),
        layout.table(FILES, [_file(one) for one in result["files"]]),
    ]


def _facts(result: BenchResult) -> Iterable[tuple[str, str]]:
    yield "machine", "{cpu}, {threads} threads".format(**result["machine"])
    yield "provider", result["provider"]
    yield "inputs", ", ".join(f"{name} {what}" for name, what in result["inputs"].items()) or "none"
    yield from (("" if place else "notes", note) for place, note in enumerate(result["notes"]))


def _times(one: BenchedFile) -> tuple[str, ...]:
    taken = one["latency"]
    ratio = taken["ratio"]
    return (
        one["name"],
        *(layout.number(taken[which]) for which in ("p50", "p90", "p99")),
        "{value:.3f} ({low:.3f} to {high:.3f})".format(**ratio),
        layout.number(one["rows_per_second"]),
        layout.size(one["memory"]),
    )


def _file(one: BenchedFile) -> tuple[str, ...]:
    return (
        one["name"],
        one["precision"],
        layout.size(one["bytes"]),
        "-" if math.isnan(one["integer_share"]) else f"{one['integer_share']:.1%}",
        layout.counts(one["kernels"]),
        layout.counts({name.removesuffix("ExecutionProvider"): count for name, count in one["placement"].items()}),
        one["settings"],
    )

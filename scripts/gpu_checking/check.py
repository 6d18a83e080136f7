"""All checks in their order, each with what came of it; whatever comes up in one, the others still run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gelu_deploy.errors import SetupError
from gelu_deploy.runtime.providers import choose
from gelu_deploy.strict_json import as_json
from gelu_deploy.timing import machine
from gpu_checking import exports, racing

SCHEMA = "gelu-deploy/gpu-check/1"


@dataclass(frozen=True)
class Found:
    """One check.

    Attributes:
        name: What was checked.
        passed: None where it was not reached, or cannot be had in a dry run.
        told: What came out, in one line.
        more: The same in numbers.
    """

    name: str
    passed: bool | None
    told: str
    more: dict[str, Any]


Check = Callable[[], tuple[bool | None, str, dict[str, Any]]]


def check(place: Path, until: float, *, dry: bool, told: Path | None) -> int:
    """Run all checks, print a line for each, and write them to ``told``.

    Args:
        place: A folder for files.
        until: Of the monotonic clock; no check begins later.
        dry: On the CPU, with small networks.
        told: A file for all of it in JSON.

    Returns:
        The exit code: 1 where a check failed or was not reached.
    """
    provider, found = "cpu" if dry else "cuda", list[Found]()
    for name, one in _checks(place, provider, small=dry):
        found.append(_run(name, one, until))
        mark = {True: "ok", False: "FAIL", None: "-"}[found[-1].passed]
        print(f"{mark:4}  {name:44}  {found[-1].told}", flush=True)
        if name == "provider" and not found[-1].passed:
            break  # nothing else can be had
    if told is not None:
        head = {"schema": SCHEMA, "provider": provider, "dry_run": dry, "machine": machine.here()}
        told.write_text(as_json({**head, "checks": [asdict(one) for one in found]}), encoding="utf-8")
    failed = sum(one.passed is False for one in found)
    late = sum(one.told == LATE for one in found)
    passed = sum(one.passed is True for one in found)
    print(f"gpu_check: {passed} passed, {failed} failed, {late} not reached{' (dry run on the CPU)' if dry else ''}")
    return int(failed + late > 0)


LATE = "not reached in time"


def _checks(place: Path, provider: str, *, small: bool) -> Iterator[tuple[str, Check]]:
    yield "provider", lambda: _provider(provider)
    yield from exports.checks(place, provider)
    yield from racing.checks(place, provider, small=small)


def _run(name: str, one: Check, until: float) -> Found:
    if time.monotonic() > until:
        return Found(name, None, LATE, {})
    try:
        return Found(name, *one())
    except Exception as error:  # noqa: BLE001  # a crash is a result
        return Found(name, passed=False, told=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", more={})


def _provider(name: str) -> tuple[bool, str, dict[str, Any]]:
    try:
        return True, choose(name).full, {}
    except SetupError as error:
        return False, str(error), {}

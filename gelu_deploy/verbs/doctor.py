"""``doctor``: whether this environment can do the work, and what to change if not.

It knows what this package says of its own requirements and what the runtime says of itself; it needs neither PyTorch
nor a runtime to be there.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator

from gelu_deploy.errors import SetupError
from gelu_deploy.options import DoctorOptions
from gelu_deploy.results import DoctorResult, Finding
from gelu_deploy.runtime import providers
from gelu_deploy.runtime.providers import TABLE, Provider

SCHEMA = "gelu-deploy/doctor/1"
PACKAGE = "gelu-deploy"

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?>=([\d.]+)(?: *; *extra *== *['\"](\w+)['\"])?")
_EXTRAS = {"torch": "Only needed to export from PyTorch"}
"""Extras whose absence is worth a line, and what they are for; the runtimes have lines of their own."""


def doctor(options: DoctorOptions) -> DoctorResult:  # noqa: ARG001  # every verb takes its options
    """Examine the environment. The verdict is ``fail`` when something needs to change before the work can be done."""
    findings = [_python(), *_packages(), *_runtime(), _telemetry(), _threads()]
    verdict = "pass" if all(finding["ok"] for finding in findings) else "fail"
    return {"schema": SCHEMA, "findings": findings, "verdict": verdict}


def _python() -> Finding:
    wanted = importlib.metadata.metadata(PACKAGE)["Requires-Python"].removeprefix(">=")
    advice = "" if sys.version_info >= _parts(wanted) else f"Python {wanted} or later is needed."
    return _finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", advice)


def _packages() -> Iterator[Finding]:
    """One line for each package that this one requires: its version against the floor."""
    for line in importlib.metadata.requires(PACKAGE) or []:
        match = _REQUIREMENT.fullmatch(line)
        if match is None or match[3] not in {None, *_EXTRAS}:
            continue
        name, floor, extra = match.groups()
        version = _version(name)
        if version is None and extra is not None:
            yield _optional(name, "not installed", f"{_EXTRAS[extra]}: pip install '{PACKAGE}[{extra}]'")
        else:
            yield _against_floor(name, version, floor)


def _runtime() -> Iterator[Finding]:
    """Which runtimes are installed, and each provider that one of them could have."""
    found = providers.installed()
    if len(found) == 1:
        yield from (_against_floor(name, version, _floor(name)) for name, version in found.items())
    try:
        there = providers.onnxruntime().get_available_providers()
    except SetupError as error:
        yield _finding("runtime", " and ".join(found) or "none", str(error))
        return
    for provider in TABLE.values():
        yield _provider(provider, there)


def _provider(provider: Provider, there: list[str]) -> Finding:
    name = f"provider {provider.name}"
    if provider.full not in there:
        return _optional(name, "not in this runtime", f"Only if you want it. {provider.remedy}")
    try:
        providers.prove(provider)
    except SetupError as error:
        return _finding(name, "does not load", str(error))
    return _finding(name, "loads and runs")


def _telemetry() -> Finding:
    value = os.environ.get("ORT_DISABLE_TELEMETRY", "")
    found = f"ORT_DISABLE_TELEMETRY={value}"
    if value in {"", "0"}:
        return _optional("telemetry", found, "ONNX Runtime uploads usage data; set ORT_DISABLE_TELEMETRY=1 against it.")
    return _optional("telemetry", f"off ({found})", "")


def _threads() -> Finding:
    quota = providers.quota()
    limit = "no quota" if quota is None else f"quota {quota:g}"
    found = f"{providers.available_threads()} (affinity {providers.affinity()}, {limit})"
    return _finding("threads", found)


def _against_floor(name: str, version: str | None, floor: str) -> Finding:
    if version is None:
        return _finding(name, "not installed", f"pip install '{name}>={floor}'")
    low = _parts(version) < _parts(floor)
    return _finding(name, version, f"pip install '{name}>={floor}'" if low else "")


def _floor(name: str) -> str:
    matches = map(_REQUIREMENT.fullmatch, importlib.metadata.requires(PACKAGE) or [])
    return next((match[2] for match in matches if match and match[1] == name), "0")


def _finding(name: str, found: str, advice: str = "") -> Finding:
    """Whatever needs advice is not all right."""
    return {"name": name, "found": found, "ok": not advice, "advice": advice}


def _optional(name: str, found: str, advice: str) -> Finding:
    return {"name": name, "found": found, "ok": True, "advice": advice}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])

"""What ``export``, ``inspect``, ``check``, ``run`` and ``doctor`` return."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Writing(TypedDict):
    """A form in a spelling: ``{"form": "tanh", "spelling": "ops"}``; alpha for the sigmoid form."""

    form: str
    spelling: str
    alpha: NotRequired[float]


class Computed(TypedDict):
    """What another runtime really computes: the nearest form, how far off, and how much farther the next form is.

    ``how`` it was seen: ``in the network`` or ``alone``, the site being a model of its own.
    """

    form: str
    error: float
    margin: float
    how: str


class SiteResult(TypedDict):
    """One GELU of a graph; with ``function`` its input and output are values of that function."""

    form: str
    spelling: str
    input: str
    output: str
    module: str
    error: float
    kernels: list[str]
    reason: str
    scale: NotRequired[float]
    bias: NotRequired[str]
    function: NotRequired[str]
    found: NotRequired[Writing]
    written: NotRequired[Writing]
    computed: NotRequired[Computed]


class NearMiss(TypedDict):
    """A value that looks like a GELU and is none."""

    output: str
    input: str
    module: str
    form: str
    error: float
    reason: str


class InspectResult(TypedDict):
    """``gelu-deploy/inspect/1``."""

    schema: str
    model: str
    opset: int
    provider: str
    sites: list[SiteResult]
    near_misses: list[NearMiss]
    notes: list[str]


class Stage(TypedDict):
    """One line of the error waterfall; ``ratio`` is its error as a share of what is allowed, NaN if nothing is."""

    name: str
    max_abs: float
    max_rel: float
    ratio: float
    worst: str
    passed: bool


class ExportResult(TypedDict):
    """``gelu-deploy/export/1``."""

    schema: str
    source: str
    notes: list[str]
    exporter: str
    opset: int
    provider: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    cases: list[dict[str, str]]
    sites: list[SiteResult]
    near_misses: list[NearMiss]
    stages: list[Stage]
    verdict: str
    reason: str
    files: list[str]
    seconds: dict[str, float]
    target: NotRequired[str]


class CheckResult(TypedDict):
    """``gelu-deploy/check/1``."""

    schema: str
    model: str
    provider: str
    notes: list[str]
    sites: list[SiteResult]
    stages: list[Stage]
    verdict: str
    reason: str


class Tensor(TypedDict):
    """One array by its outside."""

    name: str
    shape: list[int]
    dtype: str
    minimum: float
    maximum: float


class RunResult(TypedDict):
    """``gelu-deploy/run/1``."""

    schema: str
    model: str
    provider: str
    outputs: list[Tensor]
    files: list[str]
    seconds: float


class Finding(TypedDict):
    """One line of the doctor: what was looked at, what came, whether it will do, what to do."""

    name: str
    found: str
    ok: bool
    advice: str


class DoctorResult(TypedDict):
    """``gelu-deploy/doctor/1``."""

    schema: str
    findings: list[Finding]
    verdict: str

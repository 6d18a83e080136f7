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


class Spread(TypedDict):
    """A ratio of times: the median of the rounds, and what one and nine in ten of them stay below."""

    median: float
    low: float
    high: float


class MetricChange(TypedDict):
    """A metric of the form as it is, and of another one on the same rows; a share of 1 where ``percent``."""

    name: str
    before: float
    after: float
    percent: bool


class EffectResult(TypedDict):
    """What a change of form does to the answers on ``--data``; ``agreement`` and ``kl`` are of answers with classes."""

    rows: int
    sqnr: float
    agreement: NotRequired[float]
    kl: NotRequired[float]
    metric: NotRequired[MetricChange]


class CandidateResult(TypedDict):
    """One way to write all GELUs of a model, in these ``forms``.

    ``error``: the largest change of any output that its form causes. ``ratio``: its time over that of the first
    candidate, which is what ``keep`` writes; ``gains``: whether that is a gain beyond noise. ``needs``: what would have
    to be said for it to be taken, ``""`` where it may be.
    """

    name: str
    forms: list[str]
    kernels: list[str]
    error: float
    milliseconds: float
    ratio: Spread
    gains: bool
    needs: str
    effect: NotRequired[EffectResult]


class ChoiceResult(TypedDict):
    """``--form auto``: what was taken, three lines that say why, and what they rest on.

    ``sites``: what is written in the place of what ``keep`` writes, by the output of the GELU. ``own``: what that is.
    ``tried``: what was the best and was measured once more against it, with the ``ratio`` that came out, ``""`` if
    nothing was; it is ``chosen`` only if that bore it out. ``offer``: what would be taken, and gains, of the candidates
    that may not be, ``""`` if nothing. ``noise``: the time of ``own`` over its own, from two
    processes. ``candidates``: what was timed, ``own`` first; empty if nothing else becomes other kernels.
    """

    lines: list[str]
    sites: dict[str, Writing]
    own: str
    chosen: str
    tried: str
    ratio: Spread
    offer: str
    noise: Spread
    candidates: list[CandidateResult]
    gelus: int
    shapes: int
    budget: float | None
    data: str
    feeds: dict[str, str]
    rounds: int
    provider: str
    machine: dict[str, str]
    cached: bool


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
    choice: NotRequired[ChoiceResult]
    runtime: NotRequired[dict[str, str]]


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

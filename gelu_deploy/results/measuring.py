"""What ``forms`` and ``bench`` return: what each form of GELU costs and how far off it is; how long files take.

What was not measured is NaN.
"""

from __future__ import annotations

from typing import TypedDict

from gelu_deploy.results.comparing import LatencyResult

LARGEST = {"float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120, "float32": 2.0**128 - 2.0**104}
"""The largest number of each type: where a safe range goes so far, it is all of the type."""


class PeakResult(TypedDict):
    """The largest value of something, and the x (or |x|) at which it is attained."""

    value: float
    at: float


class FormSpelling(TypedDict):
    """One way to write a form down, computed as its operators compute it, each rounded to the type.

    ``opset`` is the first that has the operators, 0 where none of ONNX has; ``domain`` is theirs, ``""`` for ONNX's
    own. ``error`` is the distance to GELU over every finite value of the type (beyond ±40 relative to |x|/40),
    ``error_inside_float32`` the same between two Casts; ``tail`` is relative, in float32, on −6 to 0, NaN for an
    operator that is the form itself. ``safe`` is the
    largest number, by type, up to which no operator overflows or gives NaN.
    """

    name: str
    operators: list[str]
    opset: int
    domain: str
    error: dict[str, PeakResult]
    error_inside_float32: dict[str, PeakResult]
    tail: PeakResult
    safe: dict[str, float]


class FormResult(TypedDict):
    """One form against GELU itself, in float64.

    ``offered`` says whether ``export --form`` takes it. ``erf`` is the error in the erf that the form stands for;
    ``relative`` is for x > 0, ``tail`` relative on −6 to 0, ``rms`` on −4 to 4; ``codes_changed`` is a share of 1, for
    outputs quantized to 8 bits on −0.17 to 6 and normal inputs with deviation 1.5.
    """

    name: str
    offered: bool
    absolute: PeakResult
    erf: PeakResult
    relative: PeakResult
    tail: PeakResult
    rms: float
    codes_changed: float
    spellings: list[FormSpelling]


class FormsBenchRow(TypedDict):
    """One form on one engine, in a process of its own, in turns with the others of that engine.

    ``form`` is ``copy`` for a copy of the same tensor; ``kernels`` is what ONNX Runtime made of it, empty elsewhere.
    ``rounds`` has the milliseconds of each round, in which all had a turn, and ``milliseconds`` their median;
    ``nanoseconds`` are of one element; ``bandwidth`` is the time of the copy over this one's, round by round;
    ``memory`` the most bytes that the process held beyond what it held before the form was opened; ``error`` the
    largest distance of what came out to the form in float64.
    """

    engine: str
    form: str
    spelling: str
    kernels: list[str]
    milliseconds: float
    rounds: list[float]
    nanoseconds: float
    bandwidth: float
    memory: int
    error: float


class ClaimResult(TypedDict):
    """A number that the articles give, and what came out here; ``percent`` says whether they are shares of 1.

    ``low`` and ``high`` are the ends of what the rounds gave, where it is of times, else the number itself.
    """

    claim: str
    where: str
    said: float
    measured: float
    low: float
    high: float
    percent: bool


class FormsBenchResult(TypedDict):
    """All forms timed on all engines of this machine; ``notes`` says which engines there are not."""

    shape: list[int]
    dtype: str
    machine: dict[str, str]
    rows: list[FormsBenchRow]
    claims: list[ClaimResult]
    notes: list[str]


class FormsResult(TypedDict):
    """``gelu-deploy/forms/1``; ``bench`` is None unless it was asked for."""

    schema: str
    forms: list[FormResult]
    bench: FormsBenchResult | None
    files: list[str]


class BenchedFile(TypedDict):
    """One file: its times in turns with the others', ``latency.ratio`` over the first file's.

    ``kernels`` counts what its GELUs became, ``placement`` its operators by where they run, before any are fused;
    ``memory`` is the most bytes that a process of its own held, ``settings`` those of the runtime that are stored with
    it.
    """

    name: str
    form: str
    precision: str
    bytes: int
    latency: LatencyResult
    rows_per_second: float
    memory: int
    integer_share: float
    kernels: dict[str, int]
    placement: dict[str, int]
    settings: str


class BenchResult(TypedDict):
    """``gelu-deploy/bench/1``: finished files, each timed in a process of its own; ``confidence`` is of the ratios."""

    schema: str
    provider: str
    machine: dict[str, str]
    inputs: dict[str, str]
    confidence: float
    files: list[BenchedFile]
    notes: list[str]
    seconds: dict[str, float]

"""What each verb returns: plain dictionaries, the same that ``--json`` writes. Schemas carry a version.

It knows only names and types; nothing of ours is imported.
"""

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


class LayerResult(TypedDict):
    """One layer of a quantized model; what was not measured is NaN.

    ``cut_off`` is the share of its outputs that 16-bit sums would change, had nothing been done about it.
    """

    module: str
    node: str
    op: str
    kernels: list[str]
    integer: bool
    macs: int
    sqnr_alone: float
    sqnr: float
    cut_off: float
    reason: str


class LobeResult(TypedDict):
    """What is left of one GELU below zero: codes for negative values, and their signal to noise in decibels."""

    module: str
    codes_below_zero: int
    sqnr: float


class SensitivityResult(TypedDict):
    """What quantizing one layer alone does to the answers: mean Kullback-Leibler divergence, agreement of labels."""

    module: str
    node: str
    kl: float
    agreement: float


class AccuracyResult(TypedDict):
    """Float and integer model on the same labelled rows; ``p`` is McNemar's, exact and two-sided."""

    rows: int
    before: float
    after: float
    lost: int
    gained: int
    p: float


class QuantizeResult(TypedDict):
    """``gelu-deploy/quantize/1``."""

    schema: str
    source: str
    precision: str
    target_cpu: str
    calibration: dict[str, str]
    layers: list[LayerResult]
    lobes: list[LobeResult]
    integer_share: float
    operators: list[str]
    causes: list[str]
    sqnr: float
    agreement: float
    sensitivity: list[SensitivityResult]
    accuracy: AccuracyResult | None
    bytes: dict[str, int]
    runtime: dict[str, str]
    notes: list[str]
    verdict: str
    reason: str
    files: list[str]
    seconds: dict[str, float]


class SurveyedSite(TypedDict):
    """What flowed through one GELU or ReLU; minimum to quantiles are of its input, by share of the values below.

    ``not_finite`` values were left out. ``gain`` is RMS of input over RMS of output. Shares of the values:
    ``effective`` outputs are above 0.01 in magnitude, ``negative`` ones below zero, at ``vanishing`` inputs the slope
    is below 0.01 in magnitude. ``outlier_ratio`` is the largest output over the 99.9 % quantile, of magnitudes;
    ``codes_below_zero`` of 256 over the range of the output. Channels whose outputs never were above 0.01 are ``dead``;
    ``saturated`` ones never were farther than that from their input, so that nothing bends them.
    """

    module: str
    activation: str
    input: str
    output: str
    values: int
    not_finite: int
    minimum: float
    maximum: float
    mean: float
    std: float
    quantiles: dict[str, float]
    output_minimum: float
    output_maximum: float
    gain: float
    effective: float
    negative: float
    vanishing: float
    outlier_ratio: float
    codes_below_zero: int
    channels: int
    dead: int
    saturated: int


class SurveyResult(TypedDict):
    """``gelu-deploy/survey/1``."""

    schema: str
    source: str
    data: str
    rows: int
    provider: str
    sites: list[SurveyedSite]
    notes: list[str]


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

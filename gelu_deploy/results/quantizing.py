"""What ``quantize`` and ``survey`` return."""

from __future__ import annotations

from typing import TypedDict


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

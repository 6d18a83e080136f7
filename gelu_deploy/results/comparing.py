"""What ``compare`` returns: one row per variant, the gates, and what a report draws.

Shares are of 1, not percent; times are milliseconds, sizes and memory bytes, noise is energy of the error over energy
of the signal. What was not measured is NaN, or None where a whole part was not.
"""

from __future__ import annotations

from typing import TypedDict

from gelu_deploy.results.quantizing import SensitivityResult


class Estimate(TypedDict):
    """A number and the confidence interval around it."""

    value: float
    low: float
    high: float


class DifferenceResult(TypedDict):
    """How much worse one variant is than the one it is ``against``, on the same rows; positive is a loss.

    ``lost``, ``gained`` and ``p`` (McNemar's, exact and two-sided) are of rows right or wrong, 0, 0 and NaN for other
    metrics. ``more_rows``: about how many rows more would narrow the interval to the budget; 0 where it is that narrow.
    """

    against: str
    loss: Estimate
    lost: int
    gained: int
    p: float
    more_rows: int


class LatencyResult(TypedDict):
    """Of single runs, all variants in turns; ``ratio`` is the time over that of the float file, round by round."""

    p50: float
    p90: float
    p99: float
    runs: int
    ratio: Estimate


class VariantResult(TypedDict):
    """One row of the table.

    ``name`` is unique, such as ``PyTorch``, ``float``, ``float tanh``, ``int8``, ``int8 tanh``, ``twin float``,
    ``twin int8``, or the name of a file that was given. ``family`` is ``model``, ``twin`` or ``also``; ``precision`` is
    ``pytorch``, ``float``, or that of ``quantize``. Agreement, KL and SQNR are against the family's own float file
    (``difference.against``; for the float file itself, against PyTorch).
    """

    name: str
    family: str
    form: str
    precision: str
    file: str
    score: Estimate | None
    difference: DifferenceResult | None
    agreement: float
    kl: float
    sqnr: float
    bytes: int
    latency: LatencyResult | None
    memory: int
    integer_share: float
    kernels: dict[str, int]
    notes: list[str]


class MetricResult(TypedDict):
    """What ``score`` and ``loss`` are: ``percent`` says whether they are shares to be shown in percent."""

    name: str
    higher_is_better: bool
    percent: bool


class GateResult(TypedDict):
    """One budget held against one variant; ``verdict`` is ``pass``, ``fail`` or ``cannot tell``."""

    variant: str
    gate: str
    limit: float
    measured: Estimate
    verdict: str
    reason: str


class ActivationResult(TypedDict):
    """Model against twin: the loss from float to INT8 of each, and how much larger the model's is (paired by row).

    ``float_difference`` is the score of the twin less that of the model, in float.
    """

    model_loss: Estimate
    twin_loss: Estimate
    difference: Estimate
    float_difference: Estimate
    sentence: str


class WaterfallStep(TypedDict):
    """One cause of the error of a variant, added to those before it; ``flips`` are rows whose answer changes there."""

    name: str
    noise: float
    flips: int


class WaterfallResult(TypedDict):
    """From the original to one variant; the steps add up to ``noise``, flips that undo each other count in each."""

    variant: str
    steps: list[WaterfallStep]
    noise: float
    sqnr: float
    flips: int


class Histogram(TypedDict):
    """Counts between neighbouring edges; one edge more than counts."""

    edges: list[float]
    counts: list[int]


class GridResult(TypedDict):
    """The 8-bit codes of a GELU's output: ``number = (code - zero) * scale`` for codes ``lowest`` to ``highest``."""

    scale: float
    zero: int
    lowest: int
    highest: int


class SiteHistogram(TypedDict):
    """The output of one GELU or ReLU of a family on all judged rows; ``lobe`` is the part below zero, enlarged."""

    family: str
    module: str
    activation: str
    output: Histogram
    lobe: Histogram
    grid: GridResult | None
    codes_below_zero: int
    lobe_sqnr: float
    effective: float
    negative: float


class SensitivityRanking(TypedDict):
    """What each layer does alone to the answers of one variant, worst first."""

    variant: str
    layers: list[SensitivityResult]


class CompareResult(TypedDict):
    """``gelu-deploy/compare/1``.

    ``decision`` is the variant that may ship, or that is nearest to it; ``verdict`` is ``pass``, ``fail`` or
    ``cannot tell``, of that variant.
    """

    schema: str
    source: str
    twin: str
    data: str
    calibration: str
    rows: int
    labelled: bool
    metric: MetricResult
    confidence: float
    variants: list[VariantResult]
    gates: list[GateResult]
    activation: ActivationResult | None
    waterfalls: list[WaterfallResult]
    sites: list[SiteHistogram]
    sensitivity: list[SensitivityRanking]
    machine: dict[str, str]
    decision: str
    verdict: str
    reason: str
    notes: list[str]
    files: list[str]
    seconds: dict[str, float]

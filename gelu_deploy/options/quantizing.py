"""Whether fewer bits will do: ``quantize`` and ``survey``."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from cyclopts import Parameter

from gelu_deploy.options.source import SourceOptions

PrecisionName = Literal["int8", "dynamic-int8", "w8", "fp16"]
CalibrationName = Literal["auto", "minmax", "percentile", "mse", "entropy"]
CpuName = Literal["auto", "avx2", "avx512", "vnni", "arm64"]


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions:
    """How a float ONNX file becomes an integer one."""

    output: Annotated[str | None, Parameter(name=("--output", "-o"))] = None
    """NAME.onnx to write; default NAME.int8.onnx (or .w8, .fp16, …) beside the working directory's other files."""

    precision: PrecisionName = "int8"
    """int8: static, weights and activations; dynamic-int8: activations measured in each run; w8 and fp16: weights."""

    calib_data: str | None = None
    """What the ranges are measured on: X.npz, a folder of .npy files or images, or FILE.py:NAME."""

    random_calibration: bool = False
    """Measure the ranges on random numbers; they say nothing of your data, so this has to be said."""

    calib_method: CalibrationName = "auto"
    """How a range is cut: minmax, percentile, mse or entropy; auto takes what is best on held-out batches."""

    calib_cache: str | None = None
    """Folder of measured ranges, so that a second or an interrupted run goes on; default: the user's cache folder."""

    batch: int | None = None
    """Rows of the data for each run; default 32, or what the model has fixed."""

    target_cpu: CpuName = "auto"
    """CPU that it must be right on: avx2 and avx512 add pairs of products in 16 bits; auto is this machine's."""

    exclude: tuple[str, ...] = ()
    """Module name pattern of layers that stay in float, e.g. 'head'; may be repeated."""

    correct_bias: bool = True
    """Take the mean error of each layer out of its bias."""

    guard_outliers: bool = True
    """Scale or split the widest channels after a GELU where that helps on held-out batches."""

    data: str | None = None
    """Labelled data, in the same forms, on which --max-drop is judged and accuracy is told; default: held-out data."""

    max_drop: str | None = None
    """Largest loss of accuracy, e.g. 0.5% (points), held by leaving as few layers as possible in float; without labels
    the float model's own answers count as the right ones."""

    sensitivity: Literal["none", "layers", "all"] = "none"
    """Rank the layers by what each does to the answers alone; all: every operator that default INT8 would take."""

    time_budget: float = 600.0
    """Seconds for --sensitivity and --max-drop; what has been found by then is used."""

    tune: bool = True
    """Measure which settings of the runtime this model is fastest with, and store them with it."""

    overwrite: bool = False
    """Replace an existing output."""

    dry_run: bool = False
    """Do everything but write the result."""


@dataclass(frozen=True, kw_only=True)
class SurveyOptions(SourceOptions):
    """How the values at each GELU are looked at."""

    data: str = field()
    """What to run: X.npz, a folder of .npy files or images, or FILE.py:NAME."""

    batch: int | None = None
    """Rows of the data for each run; default 32, or what the model has fixed."""

    provider: Annotated[str, Parameter(name=("--provider", "--ep"))] = "cpu"
    """Where it must run: cpu, cuda, auto, or a full execution provider name."""

"""Each verb's options: one frozen dataclass whose fields are the command's flags and the Python keywords.

It knows nothing of what the verbs do with them and imports nothing of ours. The docstring of a field is its help text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from cyclopts import Parameter

SpellingName = Literal["auto", "ops", "gelu", "contrib", "sigmoid3"]
RuntimeName = Literal["openvino", "opencv", "tract", "mnn", "ort-web"]
DtypeName = Literal["float32", "float16", "bfloat16", "float64"]
PrecisionName = Literal["int8", "dynamic-int8", "w8", "fp16"]
CalibrationName = Literal["auto", "minmax", "percentile", "mse", "entropy"]
CpuName = Literal["auto", "avx2", "avx512", "vnni", "arm64"]


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How a source that is not yet ONNX becomes a module with example inputs."""

    arch: str | None = None
    """FILE.py:NAME or MODULE:NAME of the class or factory that builds the network for a file of weights."""

    arch_arg: tuple[str, ...] = ()
    """NAME=VALUE handed to --arch, e.g. depth=4; may be repeated."""

    strict: bool = True
    """Missing or unexpected weights are an error; --no-strict loads what fits and records it."""

    trust_pickle: bool = False
    """Allow a pickled module to run the code it names while it loads."""

    trust_code: bool = False
    """Allow formats that are programs: TorchScript, .pt2, a Hugging Face folder's own code."""

    allow_class: tuple[str, ...] = ()
    """Full name of one more class that a checkpoint may hold; may be repeated."""

    data: str | None = None
    """X.npz with one array per input of the network."""

    input: tuple[str, ...] = ()
    """NAME:SHAPE:DTYPE of an example input, e.g. x:1x3x224x224:float32; may be repeated."""

    dtype: DtypeName | None = None
    """Cast the network and its float inputs to this type first; default: as the file has it."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions(SourceOptions):
    """How a model becomes a verified ONNX file."""

    output: Annotated[str | None, Parameter(name=("--output", "-o"))] = None
    """NAME.onnx to write; default model.onnx in the working directory (an .onnx source needs it said)."""

    form: str = "keep"
    """Form of every GELU: erf, tanh, sigmoid; refit3, refit5 and igelu by name; keep changes the spelling only."""

    spelling: SpellingName = "auto"
    """How the form is written: as operators, one Gelu, or com.microsoft; auto is Gelu where the opset has it."""

    accept_error: float = 0.0
    """Take for a GELU what is off by up to this much, and write it as one; by default it is only listed."""

    fp16_safe: bool = False
    """Compute every 16-bit GELU in float32 between two Casts."""

    exclude: tuple[str, ...] = ()
    """Module name pattern whose GELUs are left as they are, e.g. 'blocks.0.*'; may be repeated."""

    opset: int | None = None
    """ONNX operator set to write; default 20 or the target's, an ONNX source keeps its own."""

    target: str | None = None
    """Where it is to run, e.g. openvino, opencv, mnn, tract, portable-13; decides opset, spelling and operators."""

    exporter: str = "dynamo"
    """dynamo, torchscript, or FILE.py:NAME of your own."""

    dynamic: tuple[str, ...] = ()
    """INPUT:AXIS=NAME of one more free axis besides the batch, e.g. x:1=seq; may be repeated."""

    batch: bool = True
    """Leave the first axis free; --no-batch fixes it."""

    input_names: tuple[str, ...] = ()
    """Names for the inputs, in order; default: forward's parameters."""

    output_names: tuple[str, ...] = ()
    """Names for the outputs, in order; default: the keys of the result, else output_0, output_1, …"""

    simplify: bool = True
    """Simplify with onnxsim, used only if inputs, outputs, GELUs and answers stay the same."""

    verify: bool = True
    """Prove parity with the original, stage by stage."""

    provider: Annotated[str, Parameter(name=("--provider", "--ep"))] = "cpu"
    """Where it must run: cpu, cuda, auto, or a full execution provider name."""

    atol: tuple[str, ...] = ()
    """Absolute tolerance, or OUTPUT:VALUE for one output; may be repeated."""

    rtol: tuple[str, ...] = ()
    """Relative tolerance, or OUTPUT:VALUE for one output; may be repeated."""

    max_form_error: float | None = None
    """Largest change of any output that a change of form may cause; beyond it the verdict is fail."""

    external_data_threshold: float = 1.5e9
    """Bytes of weights above which they go to a file beside the model."""

    overwrite: bool = False
    """Replace an existing output."""

    dry_run: bool = False
    """Do everything but write the result."""


@dataclass(frozen=True, kw_only=True)
class InspectOptions:
    """How the GELUs of a file are listed."""

    provider: Annotated[str, Parameter(name=("--provider", "--ep"))] = "cpu"
    """Runtime provider whose kernels are listed."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions(SourceOptions):
    """How a finished file is proved again."""

    against: str | None = None
    """The original, if it is at hand: its answers are computed anew instead of read from the golden data."""

    provider: Annotated[str, Parameter(name=("--provider", "--ep"))] = "cpu"
    """Where it must run: cpu, cuda, auto, or a full execution provider name."""

    runtime: RuntimeName | None = None
    """Run it in this runtime in the place of ONNX Runtime, and say what each GELU is really computed as there."""

    atol: tuple[str, ...] = ()
    """Absolute tolerance, or OUTPUT:VALUE for one output; may be repeated."""

    rtol: tuple[str, ...] = ()
    """Relative tolerance, or OUTPUT:VALUE for one output; may be repeated."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a model is run once on arrays from a file."""

    data: str
    """X.npz with one array per input, or a .npy file for a model with one input."""

    output: Annotated[str | None, Parameter(name=("--output", "-o"))] = None
    """Y.npz to write the outputs to; without it only their shapes and ranges are shown."""

    provider: Annotated[str, Parameter(name=("--provider", "--ep"))] = "cpu"
    """Where it must run: cpu, cuda, auto, or a full execution provider name."""

    overwrite: bool = False
    """Replace an existing output."""


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


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """How the environment is examined."""

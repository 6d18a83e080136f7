"""From a model to a proved ONNX file: ``export``, ``inspect``, ``check``, ``run`` and ``doctor``."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from gelu_deploy.options.source import SourceOptions

SpellingName = Literal["auto", "ops", "gelu", "contrib", "sigmoid3"]
RuntimeName = Literal["openvino", "opencv", "tract", "mnn", "ort-web"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions(SourceOptions):
    """How a model becomes a verified ONNX file."""

    output: Annotated[str | None, Parameter(name=("--output", "-o"))] = None
    """NAME.onnx to write; default model.onnx in the working directory (an .onnx source needs it said)."""

    form: str = "keep"
    """Form of every GELU: erf, tanh, sigmoid; refit3, refit5 and igelu by name; keep changes the spelling only; auto
    measures what is fastest here within --max-form-error."""

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
    """Largest change of any output that a change of form may cause; beyond it the verdict is fail. Without it --form
    auto changes no form."""

    metric: str | None = None
    """How --form auto scores the answers on --data: top1, perplexity, cer, or FILE.py:NAME; default: agreement and KL
    with those of the model's own form."""

    cache: bool = True
    """Keep what --form auto measured, for this model, machine and runtime; --no-cache measures anew."""

    tune: bool = False
    """Measure which settings of the runtime the file is fastest with, and store them with it: some seconds more."""

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
class DoctorOptions:
    """How the environment is examined."""

"""Each verb's options: one frozen dataclass whose fields are the command's flags and the Python keywords.

It knows nothing of what the verbs do with them and imports nothing of ours. The docstring of a field is its help text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

SpellingName = Literal["auto", "ops", "gelu", "contrib", "sigmoid3"]
DtypeName = Literal["float32", "float16", "bfloat16", "float64"]


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
    """ONNX operator set to write; default 20, an ONNX source keeps its own."""

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

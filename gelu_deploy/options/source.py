"""How a source that is not ONNX yet is opened: the flags that several verbs share."""

from dataclasses import dataclass
from typing import Literal

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

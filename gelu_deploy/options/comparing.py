"""Which of them to ship: ``compare``."""

from dataclasses import dataclass, field
from typing import Annotated

from cyclopts import Parameter

from gelu_deploy.options.quantizing import CpuName, PrecisionName
from gelu_deploy.options.source import SourceOptions


@dataclass(frozen=True, kw_only=True)
class CompareOptions(SourceOptions):
    """How variants of a model are held against each other."""

    data: str = field()
    """What all are judged on, with labels: X.npz, a folder of .npy files or images, or FILE.py:NAME."""

    calib_data: str | None = None
    """What INT8 ranges are measured on; default: a quarter of --data, which nothing is judged on then."""

    batch: int | None = None
    """Rows of the data for each run; default 32, or what the model has fixed."""

    twin: str | None = None
    """The same network with another activation, trained the same way; it is quantized and judged the same way too."""

    twin_arch: str | None = None
    """As --arch, for the twin; default: --arch."""

    twin_arch_arg: tuple[str, ...] = ()
    """As --arch-arg, for the twin; may be repeated."""

    also: tuple[str, ...] = ()
    """A finished ONNX file with the same inputs, float or quantized, to be compared as it is; may be repeated."""

    form: tuple[str, ...] = ()
    """Form of the GELUs to compare besides the model's own, e.g. tanh; may be repeated."""

    precision: tuple[PrecisionName, ...] = ()
    """What each form is quantized to: int8 (default), dynamic-int8, w8, fp16; may be repeated."""

    metric: str = "top1"
    """How answers are scored: top1, perplexity, cer, or FILE.py:NAME of a function (outputs, labels, inputs)."""

    confidence: float = 0.95
    """Of all intervals."""

    max_drop: str | None = None
    """Budget: largest loss against the float file, e.g. 0.5% (points of a share), or a plain number for --metric."""

    min_agreement: str | None = None
    """Budget: smallest share of answers that stay the float file's, e.g. 99%."""

    max_p99: float | None = None
    """Budget: milliseconds that 99 of 100 runs stay below, on this machine."""

    max_size: str | None = None
    """Budget: size of the model's files, e.g. 10MB."""

    max_memory: str | None = None
    """Budget: peak memory of a process that runs it, e.g. 300MB."""

    provider: Annotated[str, Parameter(name=("--provider", "--ep"))] = "cpu"
    """Where it must run: cpu, cuda, auto, or a full execution provider name."""

    target_cpu: CpuName = "auto"
    """CPU that integer files must be right on: avx2 and avx512 add pairs of products in 16 bits."""

    sensitivity: bool = True
    """Rank the layers of the INT8 model by what each does to the answers alone."""

    time_budget: float = 30.0
    """Seconds for that ranking, and again for timing all variants in turns."""

    tune: bool = False
    """Measure which settings of the runtime each INT8 file is fastest with, and use them."""

    output: Annotated[str | None, Parameter(name=("--output", "-o"))] = None
    """Folder for the report and for every file that is made; default NAME.compare."""

    overwrite: bool = False
    """Replace an existing output."""

"""What takes how long: the forms of GELU (``forms``), and finished files (``bench``)."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter


@dataclass(frozen=True, kw_only=True)
class FormsOptions:
    """How the forms are measured."""

    bench: bool = False
    """Time every form too, on NumPy, PyTorch, torch.compile and ONNX Runtime, as far as they are here: minutes."""

    html: str | None = None
    """One HTML file to write all of it to, with bars; it takes the place of a file of that name."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """How finished files are timed."""

    data: str | None = None
    """Whose first batch they run on: X.npz, a folder of .npy files or images, or FILE.py:NAME; default: random."""

    input: tuple[str, ...] = ()
    """NAME:SHAPE:DTYPE of an input to be made up, e.g. x:1x3x224x224:float32; may be repeated."""

    batch: int | None = None
    """Rows of each run, where the files leave them free; default 1."""

    provider: Annotated[str, Parameter(alias="--ep")] = "cpu"
    """Where they must run: cpu, cuda, auto, or a full execution provider name."""

    duration: float = 30.0
    """Seconds for the turns of all files together; fewer runs are timed where that is too short."""

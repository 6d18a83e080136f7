"""A result of ``forms --bench`` that was not measured: round numbers of every engine, and a note."""

from __future__ import annotations

from functools import cache

import gelu_deploy
from gelu_deploy.forms_bench.claims import claims
from gelu_deploy.results import FormsBenchResult, FormsBenchRow, FormsResult


def row(engine: str, form: str, spelling: str, nanoseconds: float, *kernels: str) -> FormsBenchRow:
    milliseconds = nanoseconds * 1024 * 768 / 1e6
    return FormsBenchRow(
        engine=engine,
        form=form,
        spelling=spelling,
        kernels=list(kernels),
        milliseconds=milliseconds,
        rounds=[milliseconds * slower for slower in (1.1, 1.0, 1.0)],
        nanoseconds=nanoseconds,
        bandwidth=0.2 / nanoseconds,
        memory=int(12e6 + 1e6 * nanoseconds),
        error=2.4e-7,
    )


ROWS = [
    row("NumPy", "copy", "", 0.2),
    row("NumPy", "erf", "ops", 100.0),
    row("NumPy", "tanh", "ops", 8.0),
    row("NumPy", "tanh", "sigmoid3", 6.0),
    row("PyTorch", "copy", "", 0.2),
    row("PyTorch", "erf", "gelu", 0.8),
    row("PyTorch", "tanh", "gelu", 0.6),
    row("torch.compile", "copy", "", 0.2),
    row("torch.compile", "erf", "gelu", 0.7),
    row("torch.compile", "tanh", "gelu", 0.6),
    row("ONNX Runtime", "copy", "", 0.2),
    row("ONNX Runtime", "erf", "ops", 0.7, "Gelu"),
    row("ONNX Runtime", "erf", "gelu", 0.7, "Gelu"),
    row("ORT unfused", "erf", "ops", 1.0, "Mul", "Div", "Erf", "Add", "Mul"),
    row("ONNX Runtime", "tanh", "ops", 0.5, "FastGelu"),
    row("ONNX Runtime", "tanh", "gelu", 0.5, "Gelu"),
    row("ORT unfused", "tanh", "ops", 1.5, "Mul", "Pow", "Mul", "Add", "Mul", "Tanh", "Add", "Mul"),
]


@cache
def measured() -> FormsResult:
    """The forms themselves, as they are."""
    return gelu_deploy.forms()


def timed() -> FormsResult:
    """The same, with times."""
    bench = FormsBenchResult(
        shape=[1024, 768],
        dtype="float32",
        machine={"cpu": "Some Processor", "threads": "2", "torch": "2.13.0"},
        rows=ROWS,
        claims=claims(measured()["forms"], ROWS),
        notes=["Other is left out: it is not installed (pip install 'other')"],
    )
    return {**measured(), "bench": bench, "files": ["forms.html"]}

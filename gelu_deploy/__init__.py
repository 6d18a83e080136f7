"""Hand over whatever your ``model.pt`` is, get back an ONNX file with the proof that it computes the same.

The public names, each imported on first use: the verbs ``export``, ``inspect``, ``check``, ``run``, ``survey``,
``quantize``, ``compare``, ``bench``, ``forms`` and ``doctor``, and :class:`Session`. A verb takes the model and the
flags of its command as keywords, and returns the dictionary that ``--json`` writes. This file knows nothing of how a
verb works.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gelu_deploy.results import (
        BenchResult,
        CheckResult,
        CompareResult,
        DoctorResult,
        ExportResult,
        FormsResult,
        InspectResult,
        QuantizeResult,
        RunResult,
        SurveyResult,
    )
    from gelu_deploy.runtime import Session

__all__ = [
    "Session",
    "__version__",
    "bench",
    "check",
    "compare",
    "doctor",
    "export",
    "forms",
    "inspect",
    "quantize",
    "run",
    "survey",
]

__version__: str

# ONNX Runtime 1.29 and later start a thread that uploads usage data as soon as they are imported. Only this variable,
# set before the import, stops it; whoever wants the upload sets it to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def export(model: object, /, **options: object) -> ExportResult:
    """Turn a model into an ONNX file that is proved to compute the same.

    Args:
        model: A path, ``FILE.py:NAME``, ``MODULE:NAME``, or an ``nn.Module`` in memory.
        options: The fields of :class:`gelu_deploy.options.ExportOptions`.

    Raises:
        GeluDeployError: Any of the tree in :mod:`gelu_deploy.errors`; a verdict "fail" is a result, no exception.
    """
    from gelu_deploy.keywords import build, source
    from gelu_deploy.options import ExportOptions
    from gelu_deploy.verbs.export import export as verb

    return verb(source(model), build(ExportOptions, options))


def inspect(model: str | os.PathLike[str], /, **options: object) -> InspectResult:
    """List the GELUs of an ONNX file and the kernel that each becomes; fields of ``InspectOptions``."""
    from gelu_deploy.keywords import build
    from gelu_deploy.options import InspectOptions
    from gelu_deploy.verbs.inspect import inspect as verb

    return verb(os.fspath(model), build(InspectOptions, options))


def check(model: str | os.PathLike[str], /, **options: object) -> CheckResult:
    """Prove a finished ONNX file again, from the golden data saved with it; fields of ``CheckOptions``."""
    from gelu_deploy.keywords import build
    from gelu_deploy.options import CheckOptions
    from gelu_deploy.verbs.check import check as verb

    return verb(os.fspath(model), build(CheckOptions, options))


def run(model: str | os.PathLike[str], /, **options: object) -> RunResult:
    """Run an ONNX file once on arrays from a file; fields of ``RunOptions``."""
    from gelu_deploy.keywords import build
    from gelu_deploy.options import RunOptions
    from gelu_deploy.verbs.run import run as verb

    return verb(os.fspath(model), build(RunOptions, options))


def survey(model: object, /, **options: object) -> SurveyResult:
    """Say what flows through each GELU and ReLU of a model on your data; fields of ``SurveyOptions``.

    Args:
        model: As for :func:`export`, ONNX files included.
        options: The fields of :class:`gelu_deploy.options.SurveyOptions`.
    """
    from gelu_deploy.keywords import build, source
    from gelu_deploy.options import SurveyOptions
    from gelu_deploy.verbs.survey import survey as verb

    return verb(source(model), build(SurveyOptions, options))


def quantize(model: str | os.PathLike[str], /, **options: object) -> QuantizeResult:
    """Turn a float ONNX file into an INT8 one and say what it costs, layer by layer; fields of ``QuantizeOptions``."""
    from gelu_deploy.keywords import build
    from gelu_deploy.options import QuantizeOptions
    from gelu_deploy.verbs.quantize import quantize as verb

    return verb(os.fspath(model), build(QuantizeOptions, options))


def compare(model: object, /, **options: object) -> CompareResult:
    """Hold float, INT8 and a twin against each other and say which may ship; fields of ``CompareOptions``.

    Args:
        model: As for :func:`export`, float ONNX files included.
        options: The fields of :class:`gelu_deploy.options.CompareOptions`.
    """
    from gelu_deploy.keywords import build, source
    from gelu_deploy.options import CompareOptions
    from gelu_deploy.verbs.compare import compare as verb

    return verb(source(model), build(CompareOptions, options))


def bench(*models: str | os.PathLike[str], **options: object) -> BenchResult:
    """Time finished ONNX files in turns, each in a process of its own; fields of ``BenchOptions``."""
    from gelu_deploy.keywords import build
    from gelu_deploy.options import BenchOptions
    from gelu_deploy.verbs.bench import bench as verb

    return verb([os.fspath(model) for model in models], build(BenchOptions, options))


def forms(**options: object) -> FormsResult:
    """Show every form of GELU: how far it is from GELU itself, and what each way to write it costs."""
    from gelu_deploy.keywords import build
    from gelu_deploy.options import FormsOptions
    from gelu_deploy.verbs.forms import forms as verb

    return verb(build(FormsOptions, options))


def doctor(**options: object) -> DoctorResult:
    """Say whether this environment can do the work, and what to change if not; fields of ``DoctorOptions``."""
    from gelu_deploy.keywords import build
    from gelu_deploy.options import DoctorOptions
    from gelu_deploy.verbs.doctor import doctor as verb

    return verb(build(DoctorOptions, options))


def __getattr__(name: str) -> object:
    """``Session`` and ``__version__``, when first asked for."""
    if name == "Session":
        from gelu_deploy.runtime import Session

        return Session
    if name == "__version__":
        from importlib.metadata import version

        return version("gelu-deploy")
    raise AttributeError(f"module 'gelu_deploy' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    """The public names only."""
    return sorted(__all__)

"""``compare``: float, other forms, INT8 and a twin on the same rows, in turns on the same machine, and which may ship.

It joins what makes the variants to what measures and judges them, and does none of it itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from gelu_deploy import report
from gelu_deploy.comparison import folder, gates
from gelu_deploy.comparison.gates import Budget
from gelu_deploy.comparison.latency import need_scipy
from gelu_deploy.comparison.result import result as measured
from gelu_deploy.errors import UsageError
from gelu_deploy.gelu import FORMS
from gelu_deploy.options import CompareOptions
from gelu_deploy.options.quantizing import PrecisionName
from gelu_deploy.progress import recorded, step
from gelu_deploy.quantization.measures.cpu import target
from gelu_deploy.report.page import environment
from gelu_deploy.results import CompareResult
from gelu_deploy.runtime.providers import choose
from gelu_deploy.scoring.metric import Metric, named
from gelu_deploy.source import Kind, identify
from gelu_deploy.verbs.variants import assembled, refuse_sources


def compare(model: object, options: CompareOptions) -> CompareResult:
    """Hold a model's float, INT8 and twin variants against each other, and say which may ship; :class:`CompareOptions`.

    They are made, judged on the same rows and timed in turns; all of them are kept, with a report beside them. A budget
    that fails, or cannot be told, is a verdict.

    Raises:
        UsageError: Options that cannot be meant, data that do not fit, a twin or file with other inputs.
        ModelError: MODEL is no model or quantized already, or its export does not compute the same.
        OutputError: The folder has something in it, or cannot be written.
        GeluDeployError: Whatever ``export`` and ``quantize`` raise.
    """
    metric, asked = _refuse_hopeless(options)
    refuse_sources(model, options)
    place = Path(options.output or f"{_name(model)}.compare")
    with recorded() as seconds, folder.opened(place, overwrite=options.overwrite, used=_used(model, options)) as made:
        result = measured(assembled(model, options, made, metric), options, metric, asked)
        result["seconds"] = seconds
        result["files"] = [made.named(name) for name in sorted({*made.names(), *report.NAMES})]
        with step("write"):
            report.write(result, made.stage)
            made.publish(report.NAMES)
    return result


def _refuse_hopeless(options: CompareOptions) -> tuple[Metric, dict[str, Budget]]:
    """What cannot be meant or had whatever the model is, before minutes are spent; the metric and the budgets.

    Raises UsageError, TargetError, SetupError.
    """
    choose(options.provider)
    target(options.target_cpu)
    _need_report()
    metric = named(options.metric)
    asked = gates.budgets(options, metric)
    if not 0.5 < options.confidence < 1:
        raise UsageError(f"--confidence {options.confidence:g}: expected a share between 0.5 and 1, such as 0.95")
    if not 0 < options.time_budget < math.inf:
        raise UsageError(f"--time-budget {options.time_budget:g}: expected seconds, more than 0")
    for flag, values, known in (
        ("form", options.form, FORMS),
        ("precision", options.precision, get_args(PrecisionName)),
    ):
        unknown = next((value for value in values if value not in known), None)
        if unknown is not None:
            raise UsageError(f"--{flag} {unknown}: there is no such {flag}; there are {', '.join(known)}")
    if options.twin is None and (options.twin_arch or options.twin_arch_arg):
        raise UsageError("--twin-arch and --twin-arch-arg say how a twin is built: name its weights with --twin")
    for flag, path in (("data", options.data), ("calib-data", options.calib_data)):
        if path is not None and not _is_there(path):
            raise UsageError(f"--{flag} {path}: there is no such file or folder")
    return metric, asked


def _is_there(data: str) -> bool:
    """Whether a file, a folder, or the file of ``FILE.py:NAME`` is there; a module may be."""
    where = data.rpartition(":")[0]
    return Path(data).exists() or Path(where).is_file() or (where != "" and not where.endswith(".py"))


def _need_report() -> None:
    """Raises SetupError with the command to type when what draws and counts is not installed."""
    environment()
    need_scipy()


def _name(model: object) -> str:
    """What the folder is called after."""
    if not isinstance(model, str):
        return type(model).__name__
    if identify(model).kind == Kind.TARGET:
        return model.rpartition(":")[2]
    return Path(model).resolve().name if Path(model).is_dir() else Path(model).stem


def _used(model: object, options: CompareOptions) -> Iterable[Path]:
    named = (model, options.twin, options.data, options.calib_data, *options.also)
    return (Path(one) for one in named if isinstance(one, str))

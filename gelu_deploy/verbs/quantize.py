"""``quantize``: a float ONNX file becomes an integer one, with what runs in integers and what it cost, layer by layer.

It joins the rooms of ``quantize`` to files and options, and measures nothing itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import onnx_ir as ir

from gelu_deploy import artifact, provenance
from gelu_deploy.data import Dataset, open_data, random_data
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.graph.opening import read
from gelu_deploy.options import QuantizeOptions
from gelu_deploy.progress import recorded, step
from gelu_deploy.quantization import reporting
from gelu_deploy.quantization.calibration.cache import home
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.deciding import Wishes, decide
from gelu_deploy.quantization.decisions.half import half
from gelu_deploy.quantization.decisions.mixing import mixed, points, ranking
from gelu_deploy.quantization.decisions.sensitivity import Effect, Mixed
from gelu_deploy.quantization.measures.coverage import quantized
from gelu_deploy.quantization.measures.cpu import Cpu, target
from gelu_deploy.quantization.measures.judging import JUDGED, Exam, noise
from gelu_deploy.quantization.measures.sidebyside import unsaturated
from gelu_deploy.quantization.network import Network
from gelu_deploy.quantization.network.prepare import prepared
from gelu_deploy.quantization.reporting import Made
from gelu_deploy.results import QuantizeResult
from gelu_deploy.runtime import Session
from gelu_deploy.runtime.settings import Settings
from gelu_deploy.source import require_onnx
from gelu_deploy.verbs.tuned import tuned

SUFFIXES = {"int8": "int8", "dynamic-int8": "dynamic", "w8": "w8", "fp16": "fp16"}
NEAR = 0.1
"""Decibels that a runtime setting may cost at most."""


def quantize(model: str, options: QuantizeOptions, data: Dataset | None = None) -> QuantizeResult:
    """Quantize an ONNX file; see :class:`QuantizeOptions`.

    ``data``, batches under the names of the file's inputs, take the place of ``options.calib_data``.

    The file is not written where a layer that was quantized would run in float or none runs in integers, where answers
    are not finite, or where ``--max-drop`` cannot be held: the verdict is ``fail`` and says why.

    Raises:
        UsageError: Data are missing or do not fit, or options contradict each other.
        ModelError: The file is damaged, has nothing to quantize, or is quantized already; the data are not finite.
        OutputError: The output cannot be written.
    """
    _refuse_hopeless(options, given=data is not None)
    require_onnx(model)
    cpu, path = target(options.target_cpu), _output(model, options)
    with recorded() as seconds, artifact.stage(path, overwrite=options.overwrite or options.dry_run) as staged:
        with step("read"):
            artifact.verify(model)
            _refuse_integers(model, read(model))
            network = prepared(model)
            with network.showing(()) as run:
                inputs = run.inputs
            data = _data(model, options, inputs) if data is None else data
            labelled = open_data(options.data, inputs, batch=options.batch) if options.data else None
        fit, held = data.split()
        made = _made(network, options, cpu, fit, held, labelled)
        result = reporting.result(made, held, labelled)
        result["source"], result["precision"], result["target_cpu"] = Path(model).name, options.precision, cpu.name
        result["causes"] = [*cpu.limits, *result["causes"]]
        result["notes"] = [
            *network.notes,
            *_idle(options.exclude, [layer.name for layer in network.layers]),
            *_new(made, network),
            *data.notes,
            *result["notes"],
        ]
        result["verdict"], result["reason"] = _verdict(result, made.drop, options)
        with step("write"):
            whole = staged.write(made.model, _described(result, options, model))
        result["bytes"] = {"before": artifact.size(model), "after": artifact.size(whole)}
        if options.tune and result["verdict"] == "pass":
            _tuned(whole, staged, fit, held, made, result)
        result["seconds"] = seconds
        if result["verdict"] != "fail" and not options.dry_run:
            result["files"] = [str(Path(path).with_name(file.name)) for file in staged.publish(result)]
    return result


def _refuse_hopeless(options: QuantizeOptions, *, given: bool) -> None:
    """What cannot be meant whatever the model is; data may be ``given`` already. Raises UsageError."""
    if options.output is not None and not options.output.endswith(".onnx"):
        raise UsageError(f"--output {options.output!r}: expected a file name that ends in .onnx")
    if options.precision == "int8" and not (given or options.calib_data is not None or options.random_calibration):
        raise UsageError(
            "--calib-data is missing: ranges are measured on data like those that the model will see (X.npz, a folder "
            "of .npy files or images, or FILE.py:NAME). Without any, --random-calibration measures them on noise."
        )
    if options.calib_data is not None and options.random_calibration:
        raise UsageError("--calib-data and --random-calibration were both given: leave one of them out")
    if options.max_drop is not None:
        points(options.max_drop)
    if not options.time_budget > 0:
        raise UsageError(f"--time-budget {options.time_budget:g}: expected seconds, more than 0")
    if options.precision != "int8" and (options.max_drop is not None or options.sensitivity != "none"):
        raise UsageError(f"--max-drop and --sensitivity are for --precision int8, not {options.precision}")


def _output(model: str, options: QuantizeOptions) -> str:
    path = options.output or f"{Path(model).stem}.{SUFFIXES[options.precision]}.onnx"
    if Path(path).resolve() == Path(model).resolve():
        raise UsageError(f"--output {path} is the float model itself, which is needed again; name another file")
    return path


def _refuse_integers(path: str, model: ir.Model) -> None:
    """Raises ModelError for what has integers already."""
    found = sorted(quantized(model))
    if found:
        raise ModelError(f"{Path(path).name} is quantized already: it has {', '.join(found)}. Give the float model.")


def _idle(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """A note for every ``--exclude`` that no layer matches."""
    there = ", ".join(dict.fromkeys(re.sub(r"\d+", "*", name) for name in names))
    idle = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
    return [f"--exclude {pattern} matches no layer; they are {there}" for pattern in idle]


def _data(model: str, options: QuantizeOptions, inputs: Any) -> Dataset:
    if options.calib_data is None:
        return random_data(model)
    return open_data(options.calib_data, inputs, batch=options.batch)


def _made(
    network: Network, options: QuantizeOptions, cpu: Cpu, fit: Dataset, held: Dataset, labelled: Dataset | None
) -> Made:
    if options.precision != "int8":
        with step("quantize"):
            if options.precision == "dynamic-int8":
                model = insert.dynamic(network, "u8" if cpu.saturates else "s8")
            else:
                model = {"w8": insert.weight_only, "fp16": half}[options.precision](network)
        return Made(network, model, model)
    decided = decide(network, fit, held, cpu, _wishes(network, options))
    effects, drop = list[Effect](), None
    every, budget = options.sensitivity == "all", options.max_drop
    if options.sensitivity != "none" or budget is not None:
        with step("rank layers"):
            effects = ranking(decided, fit, held, every=every, seconds=options.time_budget / 2)
    if budget is not None:
        with step("leave layers in float"):
            exam = Exam(network, labelled or held)
            found = mixed(decided, effects, exam, points(budget), options.time_budget / 2)
            decided, drop = decided.with_recipe(found.recipe), (found.drop, found.met)
            decided.corrected.notes.append(_told(exam, found, len(network.layers)))
    model = insert.static(decided.corrected, decided.recipe)
    judged = model if target("auto") == cpu else insert.static(decided.corrected, unsaturated(decided.recipe))
    return Made(decided.network, model, judged, decided, effects, drop)


def _wishes(network: Network, options: QuantizeOptions) -> Wishes:
    kept = {layer.node for layer in network.layers if any(fnmatchcase(layer.name, one) for one in options.exclude)}
    return Wishes(
        method=None if options.calib_method == "auto" else options.calib_method,
        kept=frozenset(kept),
        guard=options.guard_outliers,
        correct=options.correct_bias,
        cache=Path(options.calib_cache) if options.calib_cache is not None else home(),
    )


def _told(exam: Exam, found: Mixed, layers: int) -> str:
    what = "points of accuracy" if exam.labelled else "points of agreement with the float model (there are no labels)"
    kept = f"{len(found.recipe.kept)} of {layers} layers left in float"
    return f"{kept}, {found.drop:.2f} {what} lost; recipes tried: {len(found.tried)}"


def _new(made: Made, network: Network) -> list[str]:
    """What was noted since the network was made ready."""
    last = network if made.decided is None else made.decided.corrected
    return last.notes[len(network.notes) :] if last is not network else []


def _verdict(result: QuantizeResult, drop: tuple[float, bool] | None, options: QuantizeOptions) -> tuple[str, str]:
    if not math.isfinite(result["sqnr"]) and result["sqnr"] < 0:
        return "fail", "answers are NaN or infinite where the float model's are not"
    fallen = [layer["module"] for layer in result["layers"] if layer["reason"].startswith(reporting.FELL_BACK)]
    if fallen:
        return "fail", (
            f"{len(fallen)} layers are quantized in the file and run in float, which is slower than no quantization: "
            f"{', '.join(fallen[:5])}; leave them in float with --exclude"
        )
    if options.precision != "fp16" and not any(layer["integer"] for layer in result["layers"]):
        held = f"; in the time there was, --max-drop {options.max_drop} took them all" if drop else ""
        return "fail", f"not one layer runs in integers{held}"
    if drop is not None and not drop[1]:
        return "fail", f"the least that was lost is {drop[0]:.2f} points, more than --max-drop {options.max_drop}"
    return "pass", ""


def _described(result: QuantizeResult, options: QuantizeOptions, model: str) -> dict[str, Any]:
    """Metadata of the artifact: what it was made from and how, and what came of it."""
    asked = {name: getattr(options, name) for name in ("precision", "exclude", "calib_method", "max_drop")}
    return {
        "quantization": {
            "source": result["source"],
            "input_sha256": provenance.digest(model),
            "versions": provenance.versions(),
            "target_cpu": result["target_cpu"],
            "calibration": result["calibration"],
            "options": asked,
            "sqnr": result["sqnr"],
            "integer_share": result["integer_share"],
        },
        "verdict": {"verdict": result["verdict"], "stages": []},
    }


def _tuned(path: Path, staged: artifact.Stage, fit: Dataset, held: Dataset, made: Made, result: QuantizeResult) -> None:
    """Measure which settings of the runtime the model is fastest with, and store them with it.

    Other kernels round otherwise, and in integers that moves the SQNR of one row by tenths of a decibel either way;
    over some batches it does not.
    """
    with step("tune"):
        some = list(islice(chain(held, fit), JUDGED))
        with made.network.showing((), optimise=True) as run:
            wanted = [run(one.inputs) for one in some]

        @cache
        def sqnr(settings: Settings) -> float:
            with Session(path, settings=settings) as run:
                return noise((answer, run(one.inputs)) for answer, one in zip(wanted, some, strict=True))

        feeds = some[0].take(slice(0, 1)).inputs if held.divisible else some[0].inputs
        result["runtime"] = tuned(staged, feeds, lambda settings: sqnr(settings) >= sqnr(Settings()) - NEAR, "cpu")

"""All forms in turns on one engine after the other, each in a process of its own, beside a copy of the same tensor.

It knows which engines there are and how a form is opened on each; how time is taken is ``timing``'s business.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gelu_deploy.arrays import Array
from gelu_deploy.errors import NativeCrash, SetupError
from gelu_deploy.forms_bench import engines
from gelu_deploy.forms_bench.engines import COPY
from gelu_deploy.gelu import FORMS, REFERENCES
from gelu_deploy.gelu.precision import PRIMITIVE
from gelu_deploy.gelu.spellings import ATEN, HIDDEN
from gelu_deploy.progress import step
from gelu_deploy.results import FormsBenchRow
from gelu_deploy.timing.interleaved import Timing, Variant, timed

NUMPY, EAGER, COMPILED, RUNTIME, UNFUSED = "NumPy", "PyTorch", "torch.compile", "ONNX Runtime", "ORT unfused"
SHAPE = (1024, 768)
"""The articles' own."""
ROUNDS, RUNS, SECONDS = 5, 5, 1.0
"""Turns of each, runs of a turn, and after how long a turn is over with fewer."""
STEADY = 1.5
"""Rounds that differ by more are not those of a machine at rest."""
ALL = {**FORMS, **REFERENCES}
KERNELS = {"erf", "tanh"}
"""Forms that PyTorch has a kernel for."""
COMPILERS = ("g++", "clang++", "c++", "icpx", "cl")


class Runner(NamedTuple):
    """One form on one engine, ready to be opened; ``kernels`` as in the results."""

    engine: str
    form: str
    spelling: str
    variant: Variant
    kernels: tuple[str, ...] = ()


def race(rounds: int = ROUNDS) -> tuple[list[FormsBenchRow], list[str]]:
    """Time every form on every engine that is here.

    Returns:
        The rows, engine by engine, its copy first; and why an engine is not among them.
    """
    rows, notes = list[FormsBenchRow](), list[str]()
    x = np.random.default_rng(0).normal(0, 1.5, SHAPE).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for engine, runners in ENGINES.items():
            reason = missing(engine)
            try:
                with step(f"time {engine}"):
                    rows += [] if reason else _timed(list(runners(Path(folder))), x, rounds)
            except (NativeCrash, SetupError) as error:
                reason = str(error)
            notes += [f"{engine} is left out: {reason}"] if reason else []
    return rows, [*notes, *_unsteady(rows)]


def missing(engine: str) -> str:
    """What this machine lacks for an engine, ``""`` if it seems to lack nothing."""
    if engine in {EAGER, COMPILED} and find_spec("torch") is None:
        return "PyTorch is not installed (pip install 'gelu-deploy[torch]')"
    compiler = os.environ.get("CXX")
    if engine == COMPILED and not any(map(shutil.which, [compiler] if compiler else COMPILERS)):
        return "it needs a C++ compiler, and there is none"
    return ""


def _unsteady(rows: list[FormsBenchRow]) -> list[str]:
    """What to think of times whose rounds do not agree."""
    spread = float(np.median([max(row["rounds"]) / min(row["rounds"]) for row in rows])) if rows else 1.0
    told = f"the slowest round of a form took {spread:.1f} times its fastest: something else was running, measure again"
    return [told] if spread > STEADY else []


def _timed(runners: list[Runner], x: Array, rounds: int) -> list[FormsBenchRow]:
    variants = [runner.variant for runner in runners]
    found = timed(variants, {"x": x}, rounds=rounds, runs=RUNS, seconds=SECONDS)
    return [_row(runner, timing, found[0], x) for runner, timing in zip(runners, found, strict=True)]


def _row(runner: Runner, timing: Timing, copy: Timing, x: Array) -> FormsBenchRow:
    wanted = x[:1] if runner.form == COPY else ALL[runner.form].reference(x[:1])
    return FormsBenchRow(
        engine=runner.engine,
        form=runner.form,
        spelling=runner.spelling,
        kernels=list(runner.kernels),
        milliseconds=timing.median,
        rounds=list(timing.milliseconds),
        nanoseconds=1e6 * timing.median / x.size,
        bandwidth=float(np.median(1 / timing.ratios(copy))),
        memory=max(0, timing.memory - timing.memory_before),
        error=float(np.max(np.abs(timing.answers["y"] - wanted))),
    )


def _numpy(_folder: Path) -> Iterator[Runner]:
    def runner(form: str, spelling: str) -> Runner:
        opener = f"{engines.__name__}:numpy"
        return Runner(NUMPY, form, spelling, Variant(form, opener, {"form": form, "spelling": spelling}))

    yield runner(COPY, "")
    for form in ALL.values():
        for name, spelling in form.spellings.items():
            if name != HIDDEN and all(one.op in PRIMITIVE for one in spelling.steps):
                yield runner(form.name, name)


def _eager(_folder: Path) -> Iterator[Runner]:
    return _pytorch(EAGER, ("torch",))


def _compiled(_folder: Path) -> Iterator[Runner]:
    return _pytorch(COMPILED, ("torch", "torch._inductor.compile_fx"))


def _pytorch(engine: str, imports: tuple[str, ...]) -> Iterator[Runner]:
    for form in (COPY, *ALL):
        opener = f"{engines.__name__}:pytorch"
        arguments = {"form": form, "compiled": engine == COMPILED}
        spelling = "" if form == COPY else "gelu" if form in KERNELS else next(iter(ALL[form].spellings))
        yield Runner(engine, form, spelling, Variant(f"{form} on {engine}", opener, arguments, imports))


def _runtime(folder: Path) -> Iterator[Runner]:
    """Every spelling as the runtime fuses it, and where it does, as it is written too."""
    import onnx_ir as ir

    from gelu_deploy.forms_bench.graphs import COPIED, RESULT, alone
    from gelu_deploy.graph.kernels import KernelIndex
    from gelu_deploy.runtime import optimised

    def unfused(engine: str, form: str, spelling: str, file: Path) -> Runner:
        opener = f"{engines.__name__}:unfused"
        return Runner(engine, form, spelling, Variant(file.stem, opener, {"model": str(file)}, ("onnxruntime",)))

    copy = folder / f"{COPY}.onnx"
    ir.save(alone(COPIED), copy)
    yield unfused(RUNTIME, COPY, "", copy)
    for form in ALL.values():
        for name, spelling in form.spellings.items():
            if name in {HIDDEN, ATEN}:
                continue
            model, file = alone(spelling.steps), folder / f"{form.name}.{name}.onnx"
            ir.save(model, file)
            kernels = KernelIndex(optimised(model)).of("x", RESULT).ops
            yield Runner(RUNTIME, form.name, name, Variant.session(file.stem, file), kernels)
            if len(kernels) < len(spelling.steps):
                written = unfused(UNFUSED, form.name, name, file)
                yield written._replace(kernels=tuple(one.op for one in spelling.steps))


ENGINES: dict[str, Callable[[Path], Iterator[Runner]]] = {
    NUMPY: _numpy,
    EAGER: _eager,
    COMPILED: _compiled,
    RUNTIME: _runtime,
}
"""By name: what runs on each, the copy first."""

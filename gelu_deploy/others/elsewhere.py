"""What another runtime makes of a file: its answers, and the form that it really computes each GELU as.

It knows the rows of a report and golden data; it decides no verdict and writes no file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx_ir as ir

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.artifact.golden import Case
from gelu_deploy.errors import GeluDeployError, ModelError
from gelu_deploy.graph import hollow
from gelu_deploy.graph.judge import GRID
from gelu_deploy.graph.opening import Opened
from gelu_deploy.graph.taps import tapped
from gelu_deploy.others.apart import Answers, Job, run
from gelu_deploy.others.judge import Nearest, nearest
from gelu_deploy.results import Computed, SiteResult

PROTOBUF = 1.9e9
"""Bytes of weights that surely fit into one file."""


@dataclass
class Elsewhere:
    """One file in another runtime.

    Attributes:
        version: The runtime's own.
        answers: What it answered to every case.
        forms: What each site was computed as, by its output; sites that could not be judged are missing.
        notes: Which they are, and why.
    """

    version: str
    answers: list[Arrays]
    forms: dict[str, Nearest] = field(default_factory=dict[str, Nearest])
    notes: list[str] = field(default_factory=list[str])


def measure(name: str, path: str, graph: Opened, rows: Sequence[SiteResult], cases: Sequence[Case]) -> Elsewhere:
    """Run the file and look at every site in it; ``rows`` get what they were computed as.

    A site is measured in the network, with its input and output shown; where the runtime refuses that model, or the
    golden data do not reach where the forms differ, it is taken out and measured alone, on a grid.

    Raises:
        SetupError: The runtime is not there.
        ModelError, NativeCrash, LimitError: It refuses the file, dies of it or does not come back.
    """
    feeds = [case.inputs for case in cases]
    outputs = [value.name or "" for value in graph.model.graph.outputs]
    names = (name for row in rows for name in (row["input"], row["output"], row.get("bias", "")))
    copy, shown = tapped(graph.model, names)
    hollow.put_back(copy, graph.held)
    seen = [*outputs, *shown.values()]
    answers, taps = run(name, [Job(_whole(path), outputs, feeds), Job(_serialised(copy), seen, feeds)])
    if isinstance(answers, GeluDeployError):
        raise answers
    found = Elsewhere(answers.version, answers.outputs)
    if isinstance(taps, Answers):
        for row in rows:
            _keep(found, row, _in_network(row, shown, taps.outputs), "in the network")
    unsure = [row for row in rows if row["output"] not in found.forms]
    for row, judged in zip(unsure, _alone(name, graph.model, unsure), strict=True):
        _keep(found, row, judged, "alone")
    lost = [row["module"] or row["output"] for row in rows if row["output"] not in found.forms]
    if lost:
        found.notes.append(f"{name} could be shown neither in the network nor alone what it computes for: {lost[0]}, …")
    return found


def _keep(found: Elsewhere, row: SiteResult, judged: Nearest | None, how: str) -> None:
    if judged is None or not judged.sure:
        return
    found.forms[row["output"]] = judged
    row["computed"] = Computed(form=judged.form, error=judged.error, margin=judged.margin, how=how)


def _in_network(row: SiteResult, shown: Mapping[str, str], runs: Sequence[Arrays]) -> Nearest | None:
    if row["input"] not in shown or row["output"] not in shown:
        return None
    bias = shown.get(row.get("bias", ""))
    pairs = [(-run[shown[row["input"]]], -run[shown[row["output"]]]) for run in runs]
    if bias is not None:
        pairs = [(x - run[bias], y) for (x, y), run in zip(pairs, runs, strict=True)]
    return _nearest(row, pairs)


def _nearest(row: SiteResult, pairs: Sequence[tuple[Array, Array]]) -> Nearest | None:
    if any(x.shape != y.shape for x, y in pairs):
        return None
    x, y = (np.concatenate([array.ravel() for array in arrays]) for arrays in zip(*pairs, strict=True))
    return nearest(x, y / np.asarray(row.get("scale", 1.0), y.dtype))


def _alone(name: str, model: ir.Model, rows: Sequence[SiteResult]) -> list[Nearest | None]:
    """Every site taken out of the model; None where that cannot be, or the runtime cannot run it."""
    taken = [_taken_out(model, row) for row in rows]
    answers = iter(run(name, jobs) if (jobs := [job for job in taken if job is not None]) else [])
    return [None if job is None else _judged(row, job, next(answers)) for row, job in zip(rows, taken, strict=True)]


def _judged(row: SiteResult, job: Job, answer: Answers | GeluDeployError) -> Nearest | None:
    if isinstance(answer, GeluDeployError):
        return None
    xs = [feeds[row["input"]] for feeds in job.feeds]
    return _nearest(row, [(x, out[row["output"]]) for x, out in zip(xs, answer.outputs, strict=True)])


def _taken_out(model: ir.Model, row: SiteResult) -> Job | None:
    """The operators of one site as a model of their own, with the grid as its inputs."""
    inputs = [row["input"], *([row["bias"]] if "bias" in row else [])]
    try:
        graph = ir.convenience.extract(model.graph, inputs, [row["output"]])
    except ValueError:  # it stands in a function or a body, or depends on more than its input
        return None
    source, *others = graph.inputs
    shapes = [None if value.shape is None else value.shape.dims for value in others]
    if source.dtype is None or any(shape is None or not all(isinstance(n, int) for n in shape) for shape in shapes):
        return None
    zeros = {value.name or "": np.zeros(value.shape.numpy(), source.dtype.numpy()) for value in others if value.shape}
    grids = _grids(source.shape, source.dtype)
    single = ir.Model(graph, ir_version=model.ir_version)
    return Job(_serialised(single), [row["output"]], [{row["input"]: grid, **zeros} for grid in grids])


def _grids(shape: ir.Shape | None, dtype: ir.DataType) -> list[Array]:
    """The grid in as many arrays of this shape as it takes; its first free axis takes what it can."""
    dims = [GRID.size] if shape is None else [size if isinstance(size, int) else 0 for size in shape.dims]
    room = math.prod(size for size in dims if size)
    if 0 in dims:
        dims[dims.index(0)] = -(-GRID.size // room)
    dims = [size or 1 for size in dims]
    room = math.prod(dims)
    count = -(-GRID.size // room)
    return list(np.resize(GRID, (count, *dims)).astype(dtype.numpy()))


def _whole(path: str) -> bytes:
    """The file itself, or, if its weights are in another one, what it says with them inside."""
    model = ir.load(path)
    if any(isinstance(value.const_value, ir.ExternalTensor) for value in model.graph.initializers.values()):
        return _serialised(model)
    return Path(path).read_bytes()


def _serialised(model: ir.Model) -> bytes:
    """The model with its weights inside. Raises ModelError where they are too many for one file."""
    if sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value) > PROTOBUF:
        raise ModelError("the weights are over 2 GB; other runtimes are given models with everything in one file")
    serialised: bytes = ir.to_proto(ir.external_data.load_to_model(model)).SerializeToString()
    return serialised

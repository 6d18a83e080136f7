"""One form on one engine, opened by name in a process of its own: arrays by name in, the first row of the answer out.

All of the answer is computed, and stays where the engine puts it; handing it over is not the form's work. NumPy runs
the operators of a spelling one by one. It knows no torch until it is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.gelu import ALPHA, FORMS, REFERENCES
from gelu_deploy.gelu.precision import PRIMITIVE
from gelu_deploy.runtime import Evaluation
from gelu_deploy.runtime.providers import available_threads
from gelu_deploy.target import module

COPY = "copy"
"""In the place of a form: the input again, in memory of its own."""

Run = Callable[[Arrays], Arrays]


def numpy(form: str, spelling: str) -> Run:
    """The operators of a spelling in NumPy, in the type of the input."""
    steps = () if form == COPY else {**FORMS, **REFERENCES}[form].spellings[spelling].steps

    def run(feeds: Arrays) -> Arrays:
        x = feeds["x"]
        values: dict[str | float, Array] = {"x": x}
        for step in steps:
            inputs = [values.get(item, ALPHA if item == "alpha" else item) for item in step.inputs]
            values[step.output] = PRIMITIVE[step.op](*inputs).astype(x.dtype, copy=False)
        return {"y": (values["y"] if steps else x.copy())[:1]}

    return run


def pytorch(form: str, *, compiled: bool) -> Run:
    """The layer of this package in PyTorch, eager or through ``torch.compile``, with all threads of the process."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of compilers beside the process that is measured
    torch = module("torch")
    torch.set_num_threads(available_threads())
    layer = torch.clone if form == COPY else module("gelu_deploy.nn.layers").GELU(form)
    layer = torch.compile(layer, dynamic=False) if compiled else layer

    def run(feeds: Arrays) -> Arrays:
        with torch.inference_mode():
            return {"y": np.asarray(layer(torch.from_numpy(feeds["x"]))[:1])}

    return run


def unfused(model: str) -> Run:
    """An ONNX file in ONNX Runtime as it is written, every operator a kernel of its own."""
    return Evaluation(Path(model), optimise=False)

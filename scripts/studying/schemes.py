"""One network of ``scripts/study`` in float and in INT8: every scheme's score on the test rows, kept as JSON.

Every scheme gets the same float ONNX file, calibrates on the same training rows, and is judged on the test rows. It
knows nothing of comparisons between networks, or of claims.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import onnx_ir as ir
import torch
from measuring import answers, cut, static
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

import gelu_deploy
from gelu_deploy import provenance
from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.scoring import metrics
from studying.training import Split, Task, logits, trained

VARIANTS = {"gelu": "gelu", "relu": "relu", "leaky_relu": "leaky_relu", "elu": "elu", "tanh": "gelu"}
"""What is quantized, and the activation it was trained with. ``tanh`` is GELU's network with that form, written out."""
OURS = {"int8": "int8", "dynamic": "dynamic-int8"}
THEIRS = {
    "ort": (False, {}),
    "ort softmax": (True, {}),
    "ort symmetric": (True, {"extra_options": {"ActivationSymmetric": True}}),
}
"""ONNX Runtime's static quantization: whether softmax and mask stay in float, and its options."""
SCHEMES = ("float", *OURS, *THEIRS)
CALIBRATION = 128
"""Rows of training data that ranges are measured on."""


class Judged(TypedDict):
    """One file on the test rows.

    Accuracy in percent, or nats per byte; SQNR of the logits in dB against the network's own float file.
    """

    score: float
    sqnr: float


class Measured(TypedDict):
    """One network: by scheme; the effective rate of each site; its score in float once its activations are ReLUs."""

    schemes: dict[str, Judged]
    effective: list[float]
    swapped: float


def measured(task: Task, variant: str, seed: int, place: Path) -> Measured:
    """From the folder, or measured and put there; the network is trained if need be."""
    path = place / f"{task.name}-{seed}-{variant}-{_key(task, seed)}.json"
    if not path.exists():
        network = trained(task, VARIANTS[variant], seed, place)
        with tempfile.TemporaryDirectory() as folder:
            found = _measure(task, variant, seed, network, Path(folder))
        part = path.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.replace(path)
    read: Measured = json.loads(path.read_text())
    return read


def score(task: Task, outputs: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """Accuracy in percent for digits, for text the mean of -log p of the right byte, in nats."""
    if task.name == "digits":
        return 100 * metrics.accuracy(outputs, labels)
    rows = torch.from_numpy(outputs.reshape(-1, outputs.shape[-1])).double()
    return float(functional.cross_entropy(rows, torch.from_numpy(labels.reshape(-1))))


def _key(task: Task, seed: int) -> str:
    """Changes with the network, the rows and the packages; the code of this project is not in it."""
    stated = [task.key(seed), task.rows, SCHEMES, THEIRS, CALIBRATION, provenance.versions()]
    return hashlib.sha256(json.dumps(stated).encode()).hexdigest()[:12]


def _measure(task: Task, variant: str, seed: int, network: nn.Module, folder: Path) -> Measured:
    training, test = task.data(seed)
    model = _exported(network, training, folder, form="tanh" if variant == "tanh" else "keep")
    with gelu_deploy.Session(model) as session:
        name = next(iter(session.inputs))
    calibration = training.inputs[:CALIBRATION]
    write_npz(folder / "calibration.npz", {name: calibration})
    files = {"float": model}
    for scheme, precision in OURS.items():
        files[scheme] = folder / f"{scheme}.onnx"
        gelu_deploy.quantize(
            model,
            calib_data=folder / "calibration.npz",
            calib_cache=folder / "cache",
            precision=precision,
            output=files[scheme],
            tune=False,
        )
    plain, inner = _plain(model)
    for scheme, (spared, options) in THEIRS.items():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "invalid value", RuntimeWarning)  # the causal mask is -inf
            files[scheme] = static(
                plain,
                [{name: part} for part in cut(calibration, 32)],
                folder / f"{scheme}.onnx",
                nodes_to_exclude=inner if spared else [],
                **options,
            )
    batches = [{name: part} for part in cut(test.inputs, 64)]
    reference = answers(model, batches)
    return Measured(
        schemes={scheme: _judged(task, reference, answers(file, batches), test) for scheme, file in files.items()},
        effective=_effective(model, folder),
        swapped=score(task, logits(_swapped(task, network, seed), test.inputs), test.labels),
    )


def _exported(network: nn.Module, training: Split, folder: Path, form: str) -> Path:
    """As ONNX, proved; in another form than its own as operators, which is how exporters write it below opset 20."""
    name = next(iter(inspect.signature(network.forward).parameters))
    write_npz(folder / "example.npz", {name: training.inputs[:2]})
    path = folder / "float.onnx"
    gelu_deploy.export(network, data=folder / "example.npz", output=path, exporter="torchscript")
    if form != "keep":
        gelu_deploy.export(path, form=form, spelling="ops", output=path, overwrite=True)
    return path


def _plain(model: Path) -> tuple[Path, list[str]]:
    """A copy without our seal, which ONNX Runtime's tool would break, and the names of softmaxes and masks in it."""
    graph = ir.load(model)
    graph.metadata_props.clear()
    out = model.with_name("plain.onnx")
    ir.save(graph, out)
    return out, [str(node.name) for node in graph.graph if node.op_type in {"Softmax", "Where"}]


def _judged(task: Task, reference: NDArray[Any], got: NDArray[Any], test: Split) -> Judged:
    return Judged(score=score(task, got, test.labels), sqnr=metrics.sqnr(reference, got))


def _effective(model: Path, folder: Path) -> list[float]:
    """Share of the outputs above 0.01 in magnitude, by site, as ``survey`` has it; it knows GELU and ReLU only."""
    return [site["effective"] for site in gelu_deploy.survey(model, data=folder / "calibration.npz")["sites"]]


def _swapped(task: Task, network: nn.Module, seed: int) -> nn.Module:
    """These weights with ReLU for an activation, without any training."""
    other = task.build("relu", seed)
    other.load_state_dict(network.state_dict())
    return other.eval()

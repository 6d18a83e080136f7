"""The two tasks of ``scripts/study`` and how a network is trained for them: one recipe, whatever its activation.

Digits: 8x8 images that come with scikit-learn. Text: the next byte in the source of Python's own standard library. A
seed decides the initial weights, the order of the training data and what is held out; networks of one seed share all.
It knows nothing of ONNX or of quantization.
"""

from __future__ import annotations

import hashlib
import json
import sysconfig
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from gelu_deploy.target import load

MODELS = Path(__file__).resolve().parents[2] / "models"
CONTEXT: int = load(f"{MODELS / 'byte_lm.py'}:CONTEXT")
HELD_OUT = 0.1
"""Share of the library's files that are not trained on."""


class Split(NamedTuple):
    """What goes into the network and the classes that ought to come out, as many rows in both."""

    inputs: NDArray[Any]
    labels: NDArray[np.int64]


class Data(NamedTuple):
    """All there is for one seed."""

    training: Split
    test: Split


@dataclass(frozen=True)
class Task:
    """One network, one kind of data, one recipe.

    Attributes:
        name: A key of NETWORKS and of DATA.
        seeds: How many trainings there are of each activation.
        depth: Blocks of the network.
        steps: Batches that are trained on.
        batch: Rows in each.
        rate: Highest learning rate.
        rows: Test rows at most.
    """

    name: str
    seeds: int
    depth: int
    steps: int
    batch: int
    rate: float
    rows: int

    def data(self, seed: int) -> Data:
        """Training and test rows for a seed."""
        training, test = DATA[self.name](seed)
        return Data(training, Split(test.inputs[: self.rows], test.labels[: self.rows]))

    def build(self, activation: str, seed: int) -> nn.Module:
        """The network before training."""
        network = NETWORKS[self.name]
        made: nn.Module = load(f"{MODELS / network}.py:{network}")(activation, depth=self.depth, seed=seed)
        return made

    def key(self, seed: int) -> str:
        """Twelve digits that change whenever training would give another network for this seed."""
        recipe = {name: value for name, value in asdict(self).items() if name not in {"seeds", "rows"}}
        training = self.data(seed).training
        digest = hashlib.sha256(json.dumps([recipe, seed, torch.__version__]).encode())
        digest.update(training.inputs.tobytes() + training.labels.tobytes())
        return digest.hexdigest()[:12]


def digits(seed: int) -> Data:
    """Images float32 [N, 1, 8, 8] in [-1, 1], a quarter of them held out, and what they show."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 8 - 1).astype(np.float32).reshape(-1, 1, 8, 8)
    parts = train_test_split(images, labels.astype(np.int64), test_size=0.25, random_state=seed, stratify=labels)
    training, test, training_labels, test_labels = parts
    return Data(Split(training, training_labels), Split(test, test_labels))


def text(seed: int) -> Data:
    """Bytes int64 [N, CONTEXT], cut out of the library's files, and at each the byte that follows.

    The held-out files are read in an order of their own, so that the first rows come from all over them.
    """
    order = np.random.default_rng(seed)
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    mixed = [files[n].read_bytes() for n in order.permutation(len(files))]
    held = max(1, round(HELD_OUT * len(mixed)))
    training, test = _windows(b"".join(mixed[held:])), _windows(b"".join(mixed[:held]))
    return Data(_next_byte(training), _next_byte(order.permutation(test)))


def _windows(content: bytes) -> NDArray[np.int64]:
    """[N, CONTEXT + 1]; the bytes at the end that fill no window are left out."""
    whole = len(content) // (CONTEXT + 1) * (CONTEXT + 1)
    return np.frombuffer(content[:whole], np.uint8).reshape(-1, CONTEXT + 1).astype(np.int64)


def _next_byte(windows: NDArray[np.int64]) -> Split:
    return Split(np.ascontiguousarray(windows[:, :-1]), np.ascontiguousarray(windows[:, 1:]))


NETWORKS = {"digits": "digits_vit", "text": "byte_lm"}
DATA: dict[str, Callable[[int], Data]] = {"digits": digits, "text": text}


def train(task: Task, activation: str, seed: int) -> nn.Module:
    """The network after ``task.steps`` batches, in eval mode: AdamW, its rate up and down in one cycle."""
    network = task.build(activation, seed)
    inputs, labels = (torch.from_numpy(array) for array in task.data(seed).training)
    order = torch.Generator().manual_seed(seed)
    batches = DataLoader(TensorDataset(inputs, labels), task.batch, shuffle=True, drop_last=True, generator=order)
    optimizer = torch.optim.AdamW(network.parameters(), lr=task.rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, task.rate, total_steps=task.steps, pct_start=0.1, cycle_momentum=False
    )
    done = 0
    while done < task.steps:
        for given, expected in batches:
            optimizer.zero_grad()
            loss = functional.cross_entropy(network(given).flatten(0, -2), expected.flatten())
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            if done == task.steps:
                break
    return network.eval()


def trained(task: Task, activation: str, seed: int, place: Path) -> nn.Module:
    """The network with the weights that lie in a folder, trained and put there if they are missing."""
    path = place / f"{task.name}-{seed}-{activation}-{task.key(seed)}.pt"
    if not path.exists():
        place.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        torch.save(train(task, activation, seed).state_dict(), part)
        part.replace(path)
    network = task.build(activation, seed)
    network.load_state_dict(torch.load(path, weights_only=True))
    return network.eval()


@torch.inference_mode()
def logits(network: nn.Module, inputs: NDArray[Any]) -> NDArray[np.float32]:
    """[N, ..., classes] for [N, ...]."""
    parts: list[Tensor] = [network(part) for part in torch.split(torch.from_numpy(inputs), 64)]
    return torch.cat(parts).numpy()

"""What is measured: networks of random weights, each in a folder of its own, with inputs for any batch.

Five are of transformers and one is in ``mixer.py``. A factory here opens such a folder, so that PyTorch, its exporter
and this project are handed the same weights; other tools are given the folder. It knows nothing of any tool.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Arrays = dict[str, NDArray[Any]]
Inputs = Callable[[int, np.random.Generator, bool], Arrays]
"""Batch, random numbers, whether it is the tiny network that they are for."""

UNSETTLED = 0.02
"""Standard deviation of what is added to biases and scales."""
CONFIG = "config.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Network:
    """One row of the table.

    Attributes:
        title: What the tables call it.
        inputs: Makes arrays by the names of forward's parameters.
        family: Beginning of its classes' names in transformers; empty for the Mixer.
        head: The class whose weights are saved.
        part: Attribute of that class which is what is measured; empty for all of it.
        task: What Optimum calls its use.
        fusions: The model type that ONNX Runtime's transformer tool is told: its default where its own for this fails.
        config: Where the configuration is another than transformers' own: as of the published weights.
        tiny: Changes to the configuration that make it small, for a trial of the whole command.
    """

    title: str
    inputs: Inputs
    family: str = ""
    head: str = ""
    part: str = ""
    task: str = "image-classification"
    fusions: str = "bert"
    config: Mapping[str, Any] = field(default_factory=dict)
    tiny: Mapping[str, Any] = field(default_factory=dict)


def tokens(batch: int, random: np.random.Generator, tiny: bool) -> Arrays:
    """128 tokens a row, the last few of a row padding; all known to BERT and GPT-2."""
    length, vocabulary = (16, 100) if tiny else (128, 30_000)
    used = random.integers(length // 2, length + 1, (batch, 1))
    mask = (np.arange(length) < used).astype(np.int64)
    return {"input_ids": random.integers(5, vocabulary, (batch, length)) * mask, "attention_mask": mask}


def bert_inputs(batch: int, random: np.random.Generator, tiny: bool) -> Arrays:
    """Tokens of one kind."""
    made = tokens(batch, random, tiny)
    return {**made, "token_type_ids": np.zeros_like(made["input_ids"])}


def gpt2_inputs(batch: int, random: np.random.Generator, tiny: bool) -> Arrays:
    """Tokens with their positions, which Optimum's file asks for."""
    made = tokens(batch, random, tiny)
    places = np.arange(made["input_ids"].shape[1], dtype=np.int64)
    return {**made, "position_ids": np.tile(places, (batch, 1))}


def images(batch: int, random: np.random.Generator, tiny: bool) -> Arrays:
    """Normal pixels."""
    size = 32 if tiny else 224
    return {"pixel_values": random.standard_normal((batch, 3, size, size), np.float32)}


def sounds(batch: int, random: np.random.Generator, tiny: bool) -> Arrays:
    """30 s as mel features."""
    return {"input_features": random.standard_normal((batch, 16 if tiny else 80, 3000), np.float32)}


_CLASSES = {"num_labels": 1000}
_TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_TINY_WHISPER = {
    f"{half}_{what}": size
    for half in ("encoder", "decoder")
    for what, size in (("layers", 1), ("attention_heads", 1), ("ffn_dim", 32))
} | {"d_model": 16, "num_mel_bins": 16, "max_target_positions": 16}

NETWORKS = {
    "bert": Network(
        "BERT-base, 128 tokens",
        bert_inputs,
        "Bert",
        "BertModel",
        task="feature-extraction",
        tiny={**_TINY, "vocab_size": 100, "max_position_embeddings": 32},
    ),
    "vit": Network(
        "ViT-B/16",
        images,
        "ViT",
        "ViTForImageClassification",
        fusions="vit",
        config=_CLASSES,
        tiny={**_TINY, "image_size": 32, "patch_size": 8},
    ),
    "gpt2": Network(
        "GPT-2, 128 tokens",
        gpt2_inputs,
        "GPT2",
        "GPT2LMHeadModel",
        task="text-generation",
        tiny={"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 100},
    ),
    "convnext": Network(
        "ConvNeXt-T",
        images,
        "ConvNext",
        "ConvNextForImageClassification",
        config={**_CLASSES, "layer_scale_init_value": 1.0},  # 1e-6 would leave every block out
        tiny={"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "image_size": 32},
    ),
    "mixer": Network("MLP-Mixer-S/16", images, tiny={"image": 32, "patch": 8, "width": 32, "depth": 2}),
    "whisper": Network(
        "Whisper-tiny encoder, 30 s",
        sounds,
        "Whisper",
        "WhisperModel",
        part="encoder",
        fusions="bart",
        task="feature-extraction",
        tiny=_TINY_WHISPER,
    ),
}


def write(name: str, folder: Path, *, tiny: bool = False, **config: Any) -> None:
    """Seeded random weights and their configuration, as ``save_pretrained`` lays them out.

    Args:
        name: Key of the table.
        folder: Where to; it is made.
        tiny: Whether it is the small one.
        config: More changes to the configuration.
    """
    import torch
    from safetensors.torch import save_model

    row = NETWORKS[name]
    sizes = {**row.config, **(row.tiny if tiny else {}), **config}
    folder.mkdir(parents=True, exist_ok=True)
    with _quiet() as transformers, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        if row.family:
            found = getattr(transformers, row.head)(getattr(transformers, f"{row.family}Config")(**sizes))
            _unsettle(found)
            found.save_pretrained(folder)
        else:
            from benching.mixer import Mixer

            plain = Mixer(**sizes)
            _unsettle(plain)
            save_model(plain, str(folder / WEIGHTS))
            (folder / CONFIG).write_text(json.dumps(sizes), encoding="utf-8")


def _unsettle(module: torch.nn.Module) -> None:
    """Move every vector off its start, in place: a bias of 0 or a scale of 1, as no training leaves it, is left out."""
    import torch

    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=UNSETTLED)


def network(name: str, folder: str) -> torch.nn.Module:
    """What :func:`write` wrote, ready to be run; the factory that ``FILE.py:NAME`` points at."""
    row = NETWORKS[name]
    if not row.family:
        from safetensors.torch import load_model

        from benching.mixer import Mixer

        plain = Mixer(**json.loads(Path(folder, CONFIG).read_text(encoding="utf-8")))
        load_model(plain, str(Path(folder, WEIGHTS)))
        return plain.eval()
    with _quiet() as transformers:
        whole = getattr(transformers, row.head).from_pretrained(folder, local_files_only=True).eval()
    whole.config.use_cache = False
    found: torch.nn.Module = getattr(whole, row.part) if row.part else whole
    return found


def feeds(name: str, batch: int, *, tiny: bool = False, seed: int = 0) -> Arrays:
    """Random inputs by name."""
    return NETWORKS[name].inputs(batch, np.random.default_rng(seed), tiny)


@contextmanager
def _quiet() -> Generator[Any]:
    """transformers, without its progress bars and warnings."""
    import transformers

    logging: Any = transformers.logging  # it is half typed
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield transformers

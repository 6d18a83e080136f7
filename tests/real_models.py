"""Model files that this project did not write, for tests: from pip packages, and from transformers with random weights.

It imports no package that it takes a file from, and needs no network.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

TransformersName = Literal["bert", "vit", "gpt2", "clip_text", "convnext"]
Size = Literal["tiny", "base"]


def magika() -> Path:
    """The .onnx of the magika package: int32 [N, 2048] in, two tanh GELUs spelled out."""
    return _only(_package("magika"), "models/*/model.onnx")


def ppocr(name: Literal["rec", "det"]) -> Path:
    """PP-OCRv6's recogniser or detector in the rapidocr package: opset 11, images in, 13 erf GELUs each."""
    return _only(_package("rapidocr"), f"models/PP-OCRv6_{name}_*.onnx")


def transformers_folder(name: TransformersName, folder: Path, *, size: Size = "tiny") -> Path:
    """Writes config.json and model.safetensors with seeded random weights to the folder, and returns it.

    ``bert`` is BertModel (erf GELU), ``vit`` ViTForImageClassification (erf), ``gpt2`` GPT2LMHeadModel (``gelu_new``),
    ``clip_text`` CLIPTextModel (``quick_gelu``), ``convnext`` ConvNextForImageClassification (erf). A tiny one has two
    layers, or four stages of one for ``convnext``; base is as large as the published base model.
    """
    import torch

    with _silence(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        _network(name, size).save_pretrained(folder)
    return folder


def _network(name: TransformersName, size: Size) -> Any:
    """The network of the configuration's defaults, which are the published base model's, or a small one."""
    import transformers

    width: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = width | {"intermediate_size": 64, "vocab_size": 100, "max_position_embeddings": 32}
    tokens = {"bos_token_id": 1, "eos_token_id": 2}
    family, head, tiny = {
        "bert": ("Bert", "BertModel", text),
        "vit": (
            "ViT",
            "ViTForImageClassification",
            width | {"intermediate_size": 64, "image_size": 32, "patch_size": 8},
        ),
        "gpt2": (
            "GPT2",
            "GPT2LMHeadModel",
            {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 100} | tokens,
        ),
        "clip_text": ("CLIPText", "CLIPTextModel", text | tokens),
        "convnext": (
            "ConvNext",
            "ConvNextForImageClassification",
            {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "image_size": 64},
        ),
    }[name]
    config = getattr(transformers, f"{family}Config")(**(tiny if size == "tiny" else {}))
    return getattr(transformers, head)(config).eval()


@contextlib.contextmanager
def _silence() -> Generator[None]:
    """Without transformers' warnings, its log and its progress bars."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _package(name: str) -> Path:
    """The folder of an installed package, found without running its code."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no package {name}: install it with pip install --no-deps {name}")
    return Path(spec.origin).parent


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise FileNotFoundError(f"{folder.name} has {len(found)} files {pattern}; expected one")
    return found[0]

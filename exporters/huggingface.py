"""A Hugging Face folder on disk: the network that its config names, head included, with inputs made from the config.

It knows transformers' conventions; nothing is downloaded, and a folder's own code runs only when it may.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gelu_deploy.errors import ModelError, SetupError, UnsafeError, UsageError
from gelu_deploy.options import SourceOptions

from .inputs import Signature
from .original import first_line

_LENGTH = 16


def load(path: str, options: SourceOptions) -> tuple[torch.nn.Module, dict[str, Tensor] | None, list[str]]:
    """The network, example inputs made from its config (None if it says too little), and notes.

    Raises:
        SetupError: transformers is not installed.
        UnsafeError: The network is the folder's own code, and ``--trust-code`` was not given.
        ModelError: The folder names no network, or its weights do not fit it (with ``--strict``).
    """
    try:
        import transformers
    except ModuleNotFoundError:
        raise SetupError(f"{path} is a Hugging Face folder; to load it: pip install transformers") from None
    kind, notes = _class(transformers, path, options)
    with _quiet(transformers):
        try:
            module, report = kind.from_pretrained(
                path,
                local_files_only=True,
                weights_only=True,
                output_loading_info=True,
                trust_remote_code=not hasattr(transformers, kind.__name__),
            )
        except Exception as error:
            raise ModelError(
                f"{path}: transformers cannot load it: {type(error).__name__}: {first_line(error)}"
            ) from error
    notes += _check(path, report, strict=options.strict)
    for config in (module.config, module.config.get_text_config()):
        config.use_cache = False
    inputs = example_inputs(module.config, tuple(Signature.of(module).required), module.main_input_name)
    return module, inputs, [*notes, f"{kind.__name__} with use_cache=False"]


def example_inputs(config: Any, names: tuple[str, ...], main: str) -> dict[str, Tensor] | None:
    """Batch of two for the parameters called ``names``: token ids within the vocabulary, images of the config's size.

    Args:
        config: The network's ``PretrainedConfig``.
        names: What forward takes.
        main: The network's ``main_input_name``.
    """
    generator = torch.Generator().manual_seed(0)
    text, image = config.get_text_config(), getattr(config, "vision_config", config)
    inputs: dict[str, Tensor] = {}
    vocabulary = getattr(text, "vocab_size", 0)
    if "input_ids" in names and vocabulary:
        length = min(_LENGTH, int(getattr(text, "max_position_embeddings", None) or _LENGTH))
        inputs["input_ids"] = torch.randint(0, vocabulary, (2, length), generator=generator)
        if "attention_mask" in names:
            inputs["attention_mask"] = torch.ones(2, length, dtype=torch.int64)
        if "token_type_ids" in names and getattr(text, "type_vocab_size", None):
            inputs["token_type_ids"] = torch.zeros(2, length, dtype=torch.int64)
        if "decoder_input_ids" in names and getattr(config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = torch.randint(0, vocabulary, (2, length), generator=generator)
    size = getattr(image, "image_size", None)
    if "pixel_values" in names and size and (main == "pixel_values" or image is not config):
        height, width = (size, size) if isinstance(size, int) else tuple(size)
        channels = getattr(image, "num_channels", 3)
        inputs["pixel_values"] = torch.randn(2, int(channels), height, width, generator=generator)
    return inputs if main in inputs else None


def _class(transformers: Any, path: str, options: SourceOptions) -> tuple[Any, list[str]]:
    config = json.loads(Path(path, "config.json").read_bytes())
    names = config.get("architectures") or []
    if not names:
        raise ModelError(f"{path}/config.json has no 'architectures'; expected the name of a class of transformers.")
    name, own = str(names[0]), config.get("auto_map") or {}
    found = getattr(transformers, name, None)
    if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
        return found, ["the folder's own code was not used: transformers has the class"] if own else []
    if not own:
        raise ModelError(
            f"{path}: transformers {transformers.__version__} has no network called {name}; try a newer one."
        )
    if not options.trust_code:
        code = ", ".join(sorted({str(value) for value in own.values()}))
        raise UnsafeError(
            f"{path}: {name} is the folder's own code ({code}), which would run. If you trust where it comes from, "
            "say --trust-code."
        )
    place = next((str(value) for value in own.values() if str(value).endswith(f".{name}")), None)
    if place is None:
        raise UsageError(f"{path}/config.json: auto_map names no {name}.")
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    made: Any = get_class_from_dynamic_module(place, path, local_files_only=True)
    return made, [f"trusted code: {place} of {path} was run"]


def _check(path: str, report: dict[str, Any], *, strict: bool) -> list[str]:
    """What the weights lack, an error if strict, and what of them the network has no use for, as one note each."""
    found = {what: sorted(map(str, report.get(f"{what}_keys", ()))) for what in ("missing", "mismatched", "unexpected")}
    told = {what: f"{len(names)} {what}: {', '.join(names[:8])}" for what, names in found.items() if names}
    unused = told.pop("unexpected", None)
    if told and strict:
        raise ModelError(f"{path}: the weights do not fit: {'; '.join(told.values())}; --no-strict loads what fits.")
    return [f"not strict: {problem}" for problem in told.values()] + [f"weights not used, {unused}"] * bool(unused)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without progress bars, reports and deprecation notices of transformers, which are not the user's to act on."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()

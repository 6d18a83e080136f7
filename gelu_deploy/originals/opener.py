"""A PyTorch original as a variant that is timed, in a process of its own.

It knows no torch until it is called there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.options import SourceOptions
from gelu_deploy.originals import LOADING, open_original
from gelu_deploy.runtime.providers import available_threads
from gelu_deploy.target import module
from gelu_deploy.timing.interleaved import Variant


def variant(name: str, model: str, options: SourceOptions) -> Variant:
    """The network behind a path as a variant; options that are not of opening a source are left out."""
    given = {field.name: getattr(options, field.name) for field in fields(SourceOptions)}
    return Variant(name, f"{__name__}:pytorch", {"model": model, "options": given}, (LOADING,))


def pytorch(model: str, options: Mapping[str, object]) -> Callable[[Mapping[str, Array]], Arrays]:
    """The network in inference mode, with as many threads as this process may use: arrays by name in and out.

    Args:
        model: A path or a target, as :func:`gelu_deploy.originals.open_original` takes it.
        options: Fields of :class:`gelu_deploy.options.SourceOptions`; a list stands for a tuple, as JSON has none.

    Raises:
        GeluDeployError: Whatever keeps the source from being opened.
        ModelError: In a run, when the network refuses the inputs.
    """
    given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
    original, _ = open_original(model, SourceOptions(**given))
    torch = module("torch")
    torch.set_num_threads(available_threads())

    def run(feeds: Mapping[str, Array]) -> Arrays:
        with torch.inference_mode():
            return original.run(feeds)

    return run

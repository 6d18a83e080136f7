"""What is timed that is no file of this project's: each function opens one, in a process of its own, by name.

Arrays by name go into what it returns, and come out. It knows nothing of what is compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np

from benching.networks import Arrays, network
from gelu_deploy.runtime.providers import available_threads

Run = Callable[[Mapping[str, Any]], Arrays]


def session(model: str) -> Run:
    """An ONNX file of anybody's in ONNX Runtime; it is given those inputs that it has, with the settings it stores."""
    from gelu_deploy.runtime import Session

    opened = Session(model)
    return lambda feeds: opened({name: feeds[name] for name in opened.inputs})


def openvino(model: str) -> Run:
    """An ONNX file in OpenVINO on the CPU, in float32."""
    import onnx_ir as ir

    from gelu_deploy.others.openvino import open_model

    graph = ir.load(model).graph
    opened = open_model(Path(model), [str(value.name) for value in graph.outputs])
    names = [str(value.name) for value in graph.inputs]
    return lambda feeds: opened({name: feeds[name] for name in names})


def pytorch(name: str, folder: str) -> Run:
    """A network of ``networks.py`` in PyTorch, eager."""
    return _first(network(name, folder))


def compiled(name: str, folder: str) -> Run:
    """The same through ``torch.compile``; what that compiles is kept beside the network. Raises RuntimeError."""
    if not any(which(compiler) for compiler in (os.environ.get("CXX", "c++"), "g++", "clang++")):
        raise RuntimeError("torch.compile needs a C++ compiler, and there is none")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of compilers beside the process that is timed
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder) / "inductor")
    import torch

    return _first(torch.compile(network(name, folder), dynamic=False))


def _first(module: Any) -> Run:
    """Runs it with all cores, and hands over the first of its outputs."""
    import torch

    torch.set_num_threads(available_threads())

    def run(feeds: Mapping[str, Any]) -> Arrays:
        with torch.inference_mode():
            found = module(**{key: torch.from_numpy(array) for key, array in feeds.items()})
            first = found if isinstance(found, torch.Tensor) else found[0]
            return {"first": np.asarray(first)}

    return run

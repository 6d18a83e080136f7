"""Ways to run one network on a device, each opened in a process of its own; what goes in and out is NumPy's, by name.

Of IO binding, CUDA graphs and PyTorch only the first answer is copied back: it is timed how long the device takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
Run = Callable[[Arrays], Arrays]


def session(model: str, provider: str) -> Run:
    """As applications call it: arrays in, arrays out."""
    from gelu_deploy import Session

    return Session(model, provider=provider)


def bound(model: str, provider: str, *, graph: bool = False) -> Run:
    """Inputs and outputs stay on the device; with ``graph`` one launch replays the whole network."""
    import onnxruntime as ort

    from gelu_deploy.runtime.providers import choose, open_session

    chosen = choose(provider)
    if graph:
        chosen.options["enable_cuda_graph"] = "1"
    opened = open_session(Path(model), chosen)
    device = "cpu" if provider == "cpu" else "cuda"
    names, first = [one.name for one in opened.get_outputs()], dict[str, Any]()
    binding = opened.io_binding()

    def run(feeds: Arrays) -> Arrays:
        if not first:
            for name, array in feeds.items():
                value = ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), device, 0)
                binding.bind_ortvalue_input(name, value)
            for name in names:
                binding.bind_output(name, device)
        opened.run_with_iobinding(binding)
        binding.synchronize_outputs()
        if not first:
            first.update(zip(names, binding.copy_outputs_to_cpu(), strict=True))
        return first

    return run


def pytorch(network: str, width: int, dtype: str, provider: str, *, compiled: bool = False) -> Run:
    """The network itself, eager or through ``torch.compile``."""
    import torch

    device = torch.device("cpu" if provider == "cpu" else "cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # as in the runtime
    from gpu_checking.racing import network_of

    module = network_of(network, width).to(device, getattr(torch, dtype)).eval()
    run_module = torch.compile(module, dynamic=False) if compiled else module
    inputs, first = dict[str, Any](), dict[str, Any]()

    def run(feeds: Arrays) -> Arrays:
        if not inputs:
            inputs.update({name: torch.from_numpy(array).to(device) for name, array in feeds.items()})
        with torch.inference_mode():
            answer = run_module(**inputs)
        if device.type == "cuda":
            torch.cuda.synchronize()
        if not first:
            first["y"] = answer.cpu().numpy()
        return first

    return run

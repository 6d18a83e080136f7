"""Every activation of transformers that is a GELU, from PyTorch to the kernel."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import gelu_deploy

FORM = {
    "gelu": "erf",
    "gelu_10": "erf",
    "gelu_accurate": "tanh",
    "gelu_fast": "tanh",
    "gelu_new": "tanh",
    "gelu_python": "erf",
    "gelu_python_tanh": "tanh",
    "gelu_pytorch_tanh": "tanh",
    "quick_gelu": "sigmoid",
}


def network(name: str) -> Any:
    import torch
    from transformers.activations import ACT2FN

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), ACT2FN[name], torch.nn.Linear(16, 4))


def test_the_list_is_the_one_of_transformers() -> None:
    from transformers.activations import ACT2FN

    assert {name for name in ACT2FN if "gelu" in name} - {"xielu"} == set(FORM)


@pytest.mark.parametrize(
    ("exporter", "opset"),
    [
        ("dynamo", 20),
        *(pytest.param(*one, marks=pytest.mark.wide) for one in (("dynamo", 18), ("dynamo", 23), ("torchscript", 17))),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", FORM)
def test_one_kernel_or_the_reason(name: str, dtype: Any, exporter: str, opset: int, tmp_path: Path) -> None:
    output = str(tmp_path / "m.onnx")
    result = gelu_deploy.export(
        network(name), output=output, input="input:2x8:float32", dtype=dtype, exporter=exporter, opset=opset
    )
    assert result["verdict"] == "pass", result["reason"]
    (site,) = result["sites"]
    assert site["form"] == FORM[name]
    assert site["module"]
    assert len(site["kernels"]) == 1 or site["reason"]
    if dtype == "float32":
        assert len(site["kernels"]) == 1, site

"""Which example inputs are chosen, and what is said when there are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.options import ExportOptions, SourceOptions
from gelu_deploy.source import identify
from gelu_deploy.target import load as find

load: Callable[..., Any] = find("gelu_deploy.exporters.loading:load")
from_module: Callable[..., Any] = find("gelu_deploy.exporters.loading:from_module")


class Small(torch.nn.Module):
    """One layer and a GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.fc(x))


def bare(arch: str, **options: Any) -> Any:
    """The network of a file that offers no example inputs."""
    return load(identify(arch.replace("net.py", "bare.py")), ExportOptions(**options))


def test_no_inputs_says_what_to_add(arch: str) -> None:
    with pytest.raises(UsageError, match=r"add --input x:2x…:float32.*parameters are x, scale \(optional\)"):
        bare(arch)


def test_inputs_as_asked(arch: str) -> None:
    original = bare(arch, input=("scale:5x3", "x:5x4:float64"))
    assert {name: array.shape for name, array in original.examples.items()} == {"x": (5, 4), "scale": (5, 3)}
    assert original.examples["x"].dtype == np.float32
    assert original.notes[1] == "inputs: x 5x4:float32, scale 5x3:float32 (seeded random values, as --input says)"
    again = bare(arch, input=("x:5x4",))
    np.testing.assert_array_equal(again.examples["x"], bare(arch, input=("x:5x4",)).examples["x"])
    with pytest.raises(UsageError, match=r"--input y: there is no such input; the network's inputs are x"):
        bare(arch, input=("y:2x4",))
    with pytest.raises(UsageError, match="no example for x: add --input x"):
        bare(arch, input=("scale:2x3",))


def test_inputs_from_a_file(tmp_path: Path, arch: str) -> None:
    images = np.arange(40.0).reshape(10, 4)
    np.savez(tmp_path / "d.npz", x=images, labels=np.arange(10))
    original = bare(arch, data=f"{tmp_path}/d.npz")
    np.testing.assert_array_equal(original.examples["x"], images[:2].astype(np.float32))
    assert f"not inputs, ignored in {tmp_path}/d.npz: labels" in original.notes
    np.savez(tmp_path / "d.npz", images=images)
    with pytest.raises(UsageError, match=r"holds images; the network's inputs are x"):
        bare(arch, data=f"{tmp_path}/d.npz")


def test_a_batch_of_one_becomes_two_unless_the_batch_is_fixed(arch: str) -> None:
    original = bare(arch, input=("x:1x4",))
    assert original.examples["x"].shape == (2, 4)
    assert any("repeated to two" in note for note in original.notes)
    assert bare(arch, input=("x:1x4",), batch=False).examples["x"].shape == (1, 4)


def test_integers_stay_inside_the_tables() -> None:
    tokens = torch.nn.Sequential(torch.nn.Embedding(5, 3))
    original = from_module(tokens, None, SourceOptions(input=("input:20x50:int64",)))
    assert set(np.unique(original.examples["input"])) == set(range(5))


def test_a_network_that_refuses_its_inputs(arch: str) -> None:
    original = bare(arch, input=("x:2x9",))
    with pytest.raises(ModelError, match=r"refuses x:2x9:float32: RuntimeError: mat1 and mat2"):
        original.run(original.examples)


def test_in_memory() -> None:
    module = Small()
    for inputs in (torch.ones(2, 4), (torch.ones(2, 4),), {"x": np.ones((2, 4), np.float32)}):
        original = from_module(module, inputs, SourceOptions())
        assert list(original.inputs) == ["x"]
        assert original.module is module
    assert not module.training
    halved = from_module(module, torch.ones(2, 4), SourceOptions(dtype="float16"))
    assert (halved.module.fc.weight.dtype, module.fc.weight.dtype) == (torch.float16, torch.float32)
    with pytest.raises(UsageError, match="got a int"):
        from_module(3, None, SourceOptions())
    with pytest.raises(UsageError, match="the call gives y; the network's inputs are x"):
        from_module(module, {"y": torch.ones(2, 4)}, SourceOptions())


def test_positional_inputs() -> None:
    class Rest(torch.nn.Module):
        def forward(self, *parts: torch.Tensor) -> torch.Tensor:
            return parts[0] - parts[1]

    original = from_module(Rest(), (torch.ones(2, 3), torch.zeros(2, 3)), SourceOptions())
    assert list(original.inputs) == ["input_0", "input_1"]
    assert original.run(original.examples)["output_0"].sum() == 6

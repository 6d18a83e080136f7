"""Weights of every kind into a network: prefixes, float types, what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gelu_deploy.errors import ModelError, TargetError, UsageError
from gelu_deploy.options import SourceOptions
from gelu_deploy.source import identify
from gelu_deploy.target import load as find

load: Callable[..., Any] = find("gelu_deploy.exporters.loading:load")
Weights = dict[str, torch.Tensor]


def opened(path: Path, **options: Any) -> Any:
    return load(identify(str(path)), SourceOptions(**options))


def saved(folder: Path, content: object, **options: Any) -> Path:
    torch.save(content, folder / "model.pt", **options)
    return folder / "model.pt"


def assert_loaded(original: Any) -> None:
    """It computes what the weights of the fixture say."""
    (output,) = original.run({"x": np.ones((2, 4), np.float32)}).values()
    expected = torch.nn.functional.gelu(torch.tensor([7.0, 23.0, 39.0])).numpy()
    np.testing.assert_allclose(output, np.stack([expected, expected]), rtol=1e-6)


@pytest.mark.parametrize("zipped", [True, False])
def test_state_dict(tmp_path: Path, arch: str, weights: Weights, zipped: bool) -> None:
    original = opened(saved(tmp_path, weights, _use_new_zipfile_serialization=zipped), arch=arch)
    assert_loaded(original)
    assert (original.output_names, list(original.inputs)) == (["output_0"], ["x"])
    assert original.notes == ["inputs: x 2x4:float32 (from example_inputs of net.py)"]
    assert not original.module.training


def test_safetensors(tmp_path: Path, arch: str, weights: Weights) -> None:
    save_file(weights, tmp_path / "model.safetensors")
    assert_loaded(opened(tmp_path / "model.safetensors", arch=arch))


def test_weights_need_an_arch(tmp_path: Path, weights: Weights) -> None:
    with pytest.raises(UsageError, match=r"state_dict, 2 tensors.*--arch FILE\.py:NAME"):
        opened(saved(tmp_path, weights))


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.", "module._orig_mod.", "model.module."])
def test_checkpoint_and_prefixes(tmp_path: Path, arch: str, weights: Weights, prefix: str) -> None:
    wrapped = {prefix + name: value for name, value in weights.items()}
    original = opened(saved(tmp_path, {"epoch": 1, "state_dict": wrapped, "ema": weights}), arch=arch)
    assert_loaded(original)
    assert "weights taken from state_dict; not used: ema" in original.notes
    assert f"prefix {prefix} taken off the names of the weights" in original.notes


def test_a_prefix_that_is_the_network_s_own_stays(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import torch\nclass Own(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.model = torch.nn.Linear(2, 2)\n    def forward(self, x): return self.model(x)\n"
        "example_inputs = torch.ones(2, 2)\n"
    )
    made = {"model.weight": torch.eye(2), "model.bias": torch.zeros(2)}
    original = opened(saved(tmp_path, made), arch=f"{tmp_path}/own.py:Own")
    assert torch.equal(original.module.model.weight, torch.eye(2))
    assert not [note for note in original.notes if "prefix" in note]


def test_target_class_factory_and_instance(arch: str) -> None:
    for name, width in (("Net", 5), ("make", 5), ("ready", 3)):
        original = load(identify(arch.replace("Net", name)), SourceOptions(arch_arg=("width=5",)))
        assert original.run(original.examples)["output_0"].shape == (2, width)
    assert torch.equal(*(load(identify(arch), SourceOptions()).module.fc.weight for _ in range(2)))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("Net", {"arch_arg": ("depth=4",)}, r"Net\(depth=4\) failed: TypeError.*depth"),
        ("broken", {}, "RuntimeError: no such luck"),
        ("WIDTH", {}, "is of type int; expected"),
        ("dict", {}, "has no 'dict'"),
    ],
)
def test_an_arch_that_fails_is_named(arch: str, name: str, options: Any, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        load(identify(arch.replace("Net", name)), SourceOptions(**options))


def test_arch_arguments_are_values(arch: str) -> None:
    assert load(identify(arch), SourceOptions(arch_arg=("extra=True", "width=2"))).module.extra is not None
    with pytest.raises(UsageError, match="expected NAME=VALUE"):
        load(identify(arch), SourceOptions(arch_arg=("width",)))


def test_what_does_not_fit_is_listed_and_recorded(tmp_path: Path, arch: str, weights: Weights) -> None:
    weights["fc.bias"] = torch.ones(7)
    weights |= {f"head.{index}": torch.ones(1) for index in range(10)}
    path = saved(tmp_path, weights)
    with pytest.raises(ModelError) as caught:
        opened(path, arch=arch, arch_arg=("extra=True",))
    expected = ["2 missing: extra.weight, extra.bias", "10 unexpected: head.0", "and 2 more", "fc.bias [7] for [3]"]
    assert [words for words in expected if words not in str(caught.value)] == []
    original = opened(path, arch=arch, strict=False)
    assert torch.equal(original.module.fc.weight, weights["fc.weight"])
    assert any(note.startswith("not strict: 10 unexpected: head.0") for note in original.notes)
    with pytest.raises(ModelError, match="none of its weights fits"):
        opened(saved(tmp_path, {"other": torch.ones(1)}), arch=arch, strict=False)


@pytest.mark.parametrize(
    "tensor", [torch.zeros(1).expand(10**12), torch.empty(10**12, device="meta"), torch.eye(3).to_sparse()]
)
def test_giants_without_values_are_refused(tmp_path: Path, arch: str, weights: Weights, tensor: torch.Tensor) -> None:
    with pytest.raises(ModelError, match=r"claims|has no values|sparse"):
        opened(saved(tmp_path, {**weights, "giant": tensor}), arch=arch)


def test_another_pickle_protocol_is_explained(tmp_path: Path, arch: str, weights: Weights) -> None:
    with pytest.raises(ModelError, match="default pickle_protocol"):
        opened(saved(tmp_path, weights, pickle_protocol=4), arch=arch)


def test_a_network_takes_the_type_of_its_weights(tmp_path: Path, arch: str, weights: Weights) -> None:
    path = saved(tmp_path, {name: tensor.bfloat16() for name, tensor in weights.items()})
    original = opened(path, arch=arch)
    assert original.examples["x"].dtype == ml_dtypes.bfloat16
    assert original.run(original.examples)["output_0"].dtype == ml_dtypes.bfloat16
    assert_loaded(opened(path, arch=arch, dtype="float32"))


def test_mixed_types_stay_mixed(tmp_path: Path, arch: str, weights: Weights) -> None:
    weights["fc.bias"] = weights["fc.bias"].half()
    module = opened(saved(tmp_path, weights), arch=arch).module
    assert (module.fc.weight.dtype, module.fc.bias.dtype) == (torch.float32, torch.float16)

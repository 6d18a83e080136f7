"""The reference networks run with every activation, and the committed weights are as good as they were."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gelu_deploy.target import load

MODELS = Path(__file__).resolve().parents[1] / "models"
NETWORKS = ["attention_gelu", "byte_lm", "convnext", "digits_vit", "ffn", "geglu", "mlp"]
ACTIVATIONS = ["gelu", "gelu_tanh", "quick_gelu", "relu", "leaky_relu", "elu"]
SITES = {"attention_gelu": 1, "byte_lm": 3, "convnext": 2, "digits_vit": 4, "ffn": 1, "geglu": 1, "mlp": 3}
CHECKPOINTS = {
    ("gelu", True): "digits_vit.pt",
    ("relu", True): "digits_vit_relu.pt",
    ("gelu", False): "digits_vit_bare.pt",
    ("relu", False): "digits_vit_relu_bare.pt",
}
"""Weights of the digits ViT by activation and by whether it has its LayerNorms."""


def build(name: str, activation: str = "gelu", **arguments: int) -> nn.Module:
    network: nn.Module = load(f"{MODELS / name}.py:{name}")(activation=activation, **arguments)
    return network.eval()


def examples(name: str) -> dict[str, Tensor]:
    inputs: dict[str, Tensor] = load(f"{MODELS / name}.py:example_inputs")()
    return inputs


@torch.inference_mode()
def run(network: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    output: Tensor = network(**inputs)
    return output


def test_every_file_is_listed_here() -> None:
    assert sorted(path.stem for path in MODELS.glob("*.py")) == sorted([*NETWORKS, "activations", "blocks"])


def test_every_activation_is_listed_here() -> None:
    assert list(load(f"{MODELS / 'activations.py'}:ACTIVATIONS")) == ACTIVATIONS


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_those_of_torch(activation: str) -> None:
    x = torch.linspace(-6, 6, 49)
    expected = {
        "gelu": x * torch.special.ndtr(x),
        "gelu_tanh": 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
        "quick_gelu": x / (1 + torch.exp(-1.702 * x)),
        "relu": x.clamp(min=0),
        "leaky_relu": torch.maximum(x, 0.01 * x),
        "elu": torch.where(x > 0, x, torch.expm1(x)),
    }[activation]
    torch.testing.assert_close(load(f"{MODELS / 'activations.py'}:make")(activation)(x), expected, atol=1e-6, rtol=0)


def test_an_unknown_activation_is_named() -> None:
    with pytest.raises(ValueError, match=r"'gelo' is unknown; use one of gelu, .*elu"):
        build("ffn", "gelo")


@pytest.mark.parametrize("name", NETWORKS)
def test_example_inputs_are_forwards_parameters(name: str) -> None:
    inputs = examples(name)
    assert list(inputs) == list(inspect.signature(build(name).forward).parameters)
    assert all(len(tensor) == 2 for tensor in inputs.values())
    assert all(torch.equal(tensor, examples(name)[key]) for key, tensor in inputs.items())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_run(name: str, activation: str) -> None:
    network, inputs = build(name, activation), examples(name)
    output = run(network, inputs)
    assert output.isfinite().all()
    assert output.std() > 0
    # One example alone gives what it gave in the batch.
    torch.testing.assert_close(
        run(network, {key: x[:1] for key, x in inputs.items()}), output[:1], atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_the_activation_is_what_changes(name: str) -> None:
    outputs = [run(build(name, activation).double(), doubled(name)) for activation in ACTIVATIONS]
    assert all(not torch.equal(first, second) for i, first in enumerate(outputs) for second in outputs[:i])
    assert sum(isinstance(module, nn.GELU) for module in build(name).modules()) == SITES[name]


def doubled(name: str) -> dict[str, Tensor]:
    inputs = examples(name)
    return {key: tensor.double() if tensor.is_floating_point() else tensor for key, tensor in inputs.items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_fixed_by_the_seed_alone(name: str) -> None:
    before = torch.random.get_rng_state()
    first = build(name).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(1)
    again, other = build(name).state_dict(), build(name, seed=1).state_dict()
    assert all(torch.equal(weight, again[key]) for key, weight in first.items())
    assert any(not torch.equal(weight, other[key]) for key, weight in first.items())


def test_layer_scale_hides_the_blocks() -> None:
    inputs = examples("convnext")
    change = (run(build("convnext").double(), doubled("convnext")) - inputs["x"]).abs().max()
    assert 1e-8 < change < 1e-5


def test_no_byte_sees_a_later_one() -> None:
    network, tokens = build("byte_lm"), examples("byte_lm")["tokens"]
    changed = tokens.clone()
    changed[:, 40:] = 255 - changed[:, 40:]
    before, after = (run(network, {"tokens": one}) for one in (tokens, changed))
    assert torch.equal(before[:, :40], after[:, :40])
    assert not torch.isclose(before[:, 40:], after[:, 40:]).all(dim=2).any()
    torch.testing.assert_close(run(network, {"tokens": tokens[:, :7]}), before[:, :7], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("activation", "norm"), CHECKPOINTS)
def test_committed_weights_are_good(activation: str, norm: bool) -> None:
    network = build("digits_vit", activation, norm=norm)
    weights = torch.load(MODELS / CHECKPOINTS[activation, norm], weights_only=True)
    network.load_state_dict(weights, strict=True)
    assert all(weight.dtype == torch.float32 and weight.is_contiguous() for weight in weights.values())
    with np.load(MODELS / "digits_test.npz") as data:
        images, labels = data["x"], data["labels"]
    assert (images.dtype, images.shape[1:], labels.dtype) == (np.float32, (1, 8, 8), np.int64)
    assert (images.min(), images.max()) == (-1, 1)
    right = run(network, {"x": torch.from_numpy(images)}).argmax(dim=1).numpy() == labels
    assert len(labels) >= 400
    assert right.mean() >= 0.97


def test_committed_files_are_small() -> None:
    files = [path for path in MODELS.iterdir() if path.suffix in {".pt", ".npz"}]
    assert max(path.stat().st_size for path in files) < 600e3


@pytest.mark.slow
def test_training_reproduces_the_committed_weights(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, root / "scripts" / "train", "--check"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("committed") == len(CHECKPOINTS)

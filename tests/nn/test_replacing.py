"""Whole networks: what changes, what stays, and that they compute as if made with the form from the start."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import real_models
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

import gelu_deploy
from gelu_deploy.errors import UsageError
from gelu_deploy.nn import GELU, Change, replace_gelu
from gelu_deploy.target import load

MODELS = Path(__file__).resolve().parents[2] / "models"
TOKENS = {"input_ids": torch.tensor([[3, 5, 2]])}
TRANSFORMERS = {
    "bert": ("erf", "encoder.layer.0.intermediate.intermediate_act_fn", TOKENS),
    "gpt2": ("tanh", "transformer.h.0.mlp.act", TOKENS),
    "vit": ("erf", "vit.layers.0.mlp.activation_fn", {"pixel_values": torch.ones(1, 3, 32, 32).double()}),
    "clip_text": ("sigmoid", "encoder.layers.0.mlp.activation_fn", TOKENS),
    "convnext": (
        "erf",
        "convnext.encoder.stages.0.layers.0.act",
        {"pixel_values": torch.randn(1, 3, 64, 64).double()},
    ),
}
"""Form, path of the first GELU, inputs."""
FROM_THE_START = {"erf": "gelu", "tanh": "gelu_pytorch_tanh", "sigmoid": "quick_gelu"}


def reference(name: str, activation: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A network of models/ and inputs for it."""
    network: nn.Module = load(f"{MODELS / name}.py:{name}")(activation=activation)
    return network.eval(), load(f"{MODELS / name}.py:example_inputs")()


def layers(network: nn.Module) -> dict[str, GELU]:
    return {path: part for path, part in network.named_modules() if isinstance(part, GELU)}


def output(network: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        result = network(**inputs)
    tensor: Tensor = result if isinstance(result, Tensor) else result[0]
    return tensor


@pytest.mark.parametrize(("form", "activation"), [("tanh", "gelu_tanh"), ("sigmoid", "quick_gelu"), ("erf", "gelu")])
@pytest.mark.parametrize("name", ["attention_gelu", "convnext", "digits_vit", "ffn", "geglu", "mlp"])
def test_reference_networks(name: str, form: str, activation: str) -> None:
    (network, inputs), (twin, _) = (
        reference(name, "gelu_tanh" if form == "erf" else "gelu"),
        reference(name, activation),
    )
    weights = network.state_dict()
    changes = replace_gelu(network, form)
    assert [one.path for one in changes] == list(layers(network))
    assert changes
    assert {one.now for one in changes} == {f"GELU(form='{form}')"}
    assert list(network.state_dict()) == list(weights)
    assert torch.equal(output(network, inputs), output(twin, inputs))


@pytest.mark.parametrize("form", FROM_THE_START)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name: Any, form: str) -> None:
    from transformers.activations import ACT2FN

    own, path, inputs = TRANSFORMERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = real_models._network(name, "tiny").double()
    for weight in (one for part, one in network.named_parameters() if part.endswith("layer_scale_parameter")):
        weight.detach().fill_(1.0)  # 1e-6 would hide the form
    twin, before = copy.deepcopy(network), output(network, inputs)
    changes = replace_gelu(network, form)
    assert changes[0].path == path
    assert len(changes) == {"convnext": 4}.get(name, 2)
    assert {one.form for one in changes} == {own}
    for one in changes:
        twin.set_submodule(one.path, ACT2FN[FROM_THE_START[form]])
    torch.testing.assert_close(output(network, inputs), output(twin, inputs), atol=1e-12, rtol=1e-12)
    if form == own:
        assert {one.reason for one in changes} == {f"it computes {own} already"}
        assert not layers(network)
        return
    assert list(layers(network)) == [one.path for one in changes]
    assert {repr(one) for one in layers(network).values()} == {one.now for one in changes}
    assert (output(network, inputs) - before).abs().max() > 1e-10


def test_a_head_that_calls_an_activation_of_another_file() -> None:
    import transformers

    sizes: Any = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    network: Any = transformers.RobertaForMaskedLM(transformers.RobertaConfig(vocab_size=50, **sizes))
    changes = replace_gelu(network, "sigmoid")
    assert [(one.path, one.form) for one in changes] == [
        ("roberta.encoder.layer.0.intermediate.intermediate_act_fn", "erf"),
        ("lm_head.gelu", "erf"),
    ]
    x, head = torch.randn(1, 3, 16), network.lm_head
    assert torch.equal(head(x), head.decoder(head.layer_norm(GELU("sigmoid")(head.dense(x)))))


@pytest.mark.parametrize("activation", ["gelu", F.gelu, nn.GELU(), nn.GELU("tanh"), functools.partial(F.gelu)], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_transformer_encoder_leaves_its_fused_path(activation: Any, masked: bool) -> None:
    """In eval mode torch's fused layer computes erf, whatever its attribute says."""

    def encoder(act: Any) -> nn.TransformerEncoder:
        layer = nn.TransformerEncoderLayer(16, 2, 32, activation=act, batch_first=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says when it has no fused path
            return nn.TransformerEncoder(layer, 2).eval()

    network, twin = encoder(activation), encoder(GELU("tanh"))
    twin.load_state_dict(network.state_dict())
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if masked else None
    inputs: Any = {"src": torch.randn(2, 5, 16), "src_key_padding_mask": padding}
    changes = replace_gelu(network, "tanh")
    assert [(one.path, one.now) for one in changes] == [
        (f"layers.{i}.activation", "GELU(form='tanh')") for i in range(2)
    ]
    assert torch.equal(output(network, inputs), output(twin, inputs))
    assert output(network, inputs).shape == (2, 5, 16)


def test_transformer_encoder_of_the_form_keeps_its_fused_path() -> None:
    network = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True), 1)
    (change,) = replace_gelu(network, "erf")
    assert change == Change("layers.0.activation", "a function, gelu", "erf", reason="it computes erf already")
    assert network.use_nested_tensor
    assert network.layers[0].activation_relu_or_gelu == 2


def test_one_activation_in_two_places_stays_one() -> None:
    act = nn.GELU()
    network = nn.Sequential(nn.Linear(2, 2), act, nn.Sequential(nn.Linear(2, 2), act))
    changes = replace_gelu(network, "tanh")
    assert [one.path for one in changes] == ["1", "2.1"]
    assert network[1] is network.get_submodule("2.1")
    assert isinstance(network[1], GELU)


def test_one_block_in_two_places_is_reported_twice() -> None:
    block = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    network = nn.Sequential(block, block)
    assert [one.path for one in replace_gelu(network, "tanh")] == ["0.1", "1.1"]
    assert network[0] is network[1]


def test_exclude_by_path() -> None:
    network = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.GELU(), nn.SiLU()) for _ in range(3)))
    changes = replace_gelu(network, "tanh", exclude=["0.*", "2.1"])
    assert [(one.path, one.now, one.reason) for one in changes] == [
        ("0.1", "", "excluded"),
        ("1.1", "GELU(form='tanh')", ""),
        ("2.1", "", "excluded"),
    ]
    assert list(layers(network)) == ["1.1"]
    assert replace_gelu(network, "tanh", exclude="0.1")[0].reason == "excluded"


def test_a_pattern_that_matches_nothing_is_refused_before_anything_is_changed() -> None:
    network = nn.Sequential(nn.GELU(), nn.Sequential(nn.GELU()))
    with pytest.raises(UsageError, match=r"exclude='2.\*' matches no GELU; they are \*, \*\.\*"):
        replace_gelu(network, "tanh", exclude=["0", "2.*"])
    assert not layers(network)


def test_what_cannot_be_changed_is_named() -> None:
    with pytest.raises(UsageError, match=r"is a GELU itself, GELU\(approximate='none'\).* use GELU\(form='tanh'\)"):
        replace_gelu(nn.GELU(), "tanh")
    with pytest.raises(UsageError, match="form='gelo' is no form"):
        replace_gelu(nn.Sequential(nn.GELU()), "gelo")
    with pytest.raises(UsageError, match=r"expected a torch.nn.Module that can be changed, got a str"):
        replace_gelu("model.pt", "tanh")  # type: ignore[arg-type] # what is tested
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        scripted = torch.jit.script(nn.Sequential(nn.GELU()))
    with pytest.raises(UsageError, match="got a RecursiveScriptModule"):
        replace_gelu(scripted, "tanh")


def test_mode_and_hooks_go_over() -> None:
    network, called = nn.Sequential(nn.GELU().eval()), list[str]()
    first = network[0].register_forward_hook(lambda *_: called.append("forward"))
    network[0].register_forward_pre_hook(lambda *_: called.append("before"))
    replace_gelu(network, "tanh")
    assert not network[0].training
    network(torch.zeros(1))
    assert called == ["before", "forward"]
    first.remove()
    network(torch.zeros(1))
    assert called == ["before", "forward", "before"]


def test_fp16_safe_changes_the_same_form_too() -> None:
    network = nn.Sequential(nn.GELU(), GELU("tanh"), GELU("erf", fp16_safe=True))
    changes = replace_gelu(network, "erf", fp16_safe=True)
    assert [one.now for one in changes] == ["GELU(form='erf', fp16_safe=True)"] * 2 + [""]
    assert [one.reason for one in replace_gelu(network, "erf")] == ["it computes erf already"] * 3


def test_buffers_stay_in_the_files_of_weights() -> None:
    class Buffered(nn.Module):
        slope: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("slope", torch.tensor(1.702))

        def forward(self, x: Tensor) -> Any:
            return x * torch.sigmoid(self.slope * x)

    network = nn.Sequential(Buffered())
    (change,) = replace_gelu(network, "tanh")
    assert (change.form, change.now, change.reason) == (
        "sigmoid",
        "",
        "it has buffers, which files of weights may name",
    )
    assert list(network.state_dict()) == ["0.slope"]


def test_replaced_networks_pickle_and_copy() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.GELU())
    replace_gelu(network, "sigmoid")
    x = torch.randn(2, 4)
    for again in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(again(x), network(x))


class Everything(nn.Module):
    """A GELU in each way in which networks have them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 8)
        self.act = nn.GELU()
        self.activation_fn = F.gelu
        self.silu = nn.SiLU()

    def forward(self, x: Tensor) -> Any:
        return self.down(F.gelu(self.up(self.activation_fn(self.silu(self.up(self.act(self.down(x))))))))


@pytest.mark.parametrize(("exporter", "opset"), [("dynamo", 20), ("torchscript", 17)])
def test_export_shows_the_form_at_every_site(exporter: str, opset: int, tmp_path: Path) -> None:
    network = nn.Sequential(Everything())
    changes = replace_gelu(network, "sigmoid")
    result = gelu_deploy.export(
        network, output=tmp_path / "m.onnx", input="input:2x8:float32", exporter=exporter, opset=opset
    )
    assert result["verdict"] == "pass", result["reason"]
    assert {one.path for one in changes} == {site["module"] for site in result["sites"]}
    assert [(site["form"], site["kernels"]) for site in result["sites"]] == [("sigmoid", ["QuickGelu"])] * 3


@pytest.mark.slow
def test_compiled_after_replacing() -> None:
    network, x = nn.Sequential(Everything()), torch.randn(2, 8)
    replace_gelu(network, "sigmoid")
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), network(x))

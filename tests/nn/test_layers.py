"""The layers as PyTorch users meet them, and the autograd function by PyTorch's own checks."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gelu_deploy
from gelu_deploy import gelu as table
from gelu_deploy.errors import UsageError
from gelu_deploy.nn import GELU, Analytic, gelu
from gelu_deploy.nn.formulas import FORMULAS, evaluate

ONE_KERNEL = {"erf", "tanh", "sigmoid"}
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own forward mode uses it


def points() -> Tensor:
    """Away from every kink, with the root of the gradient between two of them."""
    return torch.tensor([-6.2, -3.1, -1.3, -0.7518, -0.2, 0.05, 0.9, 2.2, 7.3], dtype=torch.float64, requires_grad=True)


def analytic(form: str) -> Any:
    return lambda x: Analytic.apply(x, form, 0)  # type: ignore[no-untyped-call] # torch does not type it


@pytest.mark.parametrize("form", FORMULAS)
def test_gradient_is_the_derivative(form: str) -> None:
    both_ways = {"check_forward_ad": True, "check_batched_grad": True}
    assert torch.autograd.gradcheck(analytic(form), (points(),), atol=1e-9, rtol=0, **both_ways)
    assert torch.autograd.gradgradcheck(analytic(form), (points(),), atol=1e-8, rtol=0)
    assert torch.autograd.gradcheck(GELU(form), (points(),), atol=1e-9, rtol=0)


def test_there_is_no_third_derivative() -> None:
    x = points()
    (slope,) = torch.autograd.grad(analytic("sigmoid")(x).sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="sigmoid form of GELU has no third derivative"):
        torch.autograd.grad(bend.sum(), x)


@pytest.mark.parametrize("form", ["erf", "refit5"])
def test_transforms_of_torch_func(form: str) -> None:
    x, function = points().detach(), analytic(form)
    slope = torch.func.vmap(torch.func.grad(function))(x)
    forward = torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]
    assert torch.equal(slope, forward)
    np.testing.assert_allclose(slope, table.FORMS[form].gradient(x.numpy()), atol=1e-15)
    assert torch.equal(torch.func.vmap(torch.func.hessian(function))(x), evaluate(x, form, 2))


@pytest.mark.parametrize("form", FORMULAS)
def test_training_keeps_the_input_alone(form: str) -> None:
    kept = list[int]()

    def keep(saved: Tensor) -> Tensor:
        kept.append(saved.data_ptr())
        return saved

    x = points().detach().float().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        gelu(x, form).sum()
    assert kept == [x.data_ptr()]
    with torch.no_grad():
        assert not gelu(x, form).requires_grad


@pytest.mark.parametrize("form", FORMULAS)
def test_layer_is_the_form(form: str) -> None:
    x = torch.linspace(-9, 9, 360, dtype=torch.float64).reshape(2, 3, 4, 15)
    known = {**table.FORMS, **table.REFERENCES}[form].reference(x.numpy())
    np.testing.assert_allclose(GELU(form)(x), known, atol=1e-14)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert GELU(form)(x.to(dtype)).dtype == dtype


def test_default_is_torchs_gelu() -> None:
    x = torch.linspace(-9, 9, 101)
    assert torch.equal(GELU()(x), nn.GELU()(x))
    assert torch.equal(GELU("tanh")(x), nn.GELU("tanh")(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", FORMULAS)
def test_fp16_safe_rounds_once(form: str, dtype: torch.dtype) -> None:
    x = torch.linspace(-12, 12, 4001, dtype=dtype).requires_grad_()
    y = GELU(form, fp16_safe=True)(x)
    assert torch.equal(y, GELU(form)(x.float()).to(dtype))
    assert torch.autograd.grad(y.sum(), x)[0].dtype == dtype
    assert torch.equal(GELU(form, fp16_safe=True)(x.float()), GELU(form)(x.float()))


def test_fp16_safe_is_more_than_its_opposite() -> None:
    x = torch.tensor([-3.0], dtype=torch.float16)
    exact = table.FORMS["refit5"].reference(-3.0)
    safe, plain = (abs(float(GELU("refit5", fp16_safe=one)(x)) - float(exact)) for one in (True, False))
    assert safe < 2e-6 < plain


def test_layer_is_like_nn_gelu() -> None:
    layer = GELU("tanh", fp16_safe=True)
    assert repr(layer) == "GELU(form='tanh', fp16_safe=True)"
    assert repr(GELU()) == "GELU(form='erf')"
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(again) == repr(layer)
    plain, ours = (nn.Sequential(nn.Linear(4, 4), act, nn.Linear(4, 2)) for act in (nn.GELU(), GELU("sigmoid")))
    ours.load_state_dict(plain.state_dict(), strict=True)
    assert list(ours.state_dict()) == list(plain.state_dict())
    assert not list(layer.parameters())


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(UsageError, match=r"form='gelo' is no form of GELU; use one of erf, tanh, sigmoid, .*"):
        GELU("gelo")


@pytest.mark.slow
def test_compiled_in_one_graph() -> None:
    x = points().detach().float().requires_grad_()
    y = torch.compile(GELU("sigmoid"), fullgraph=True, backend="aot_eager")(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(y.detach(), table.FORMS["sigmoid"].reference(x.detach().numpy()), atol=1e-6)
    np.testing.assert_allclose(slope, table.FORMS["sigmoid"].gradient(x.detach().numpy()), atol=1e-6)


@pytest.mark.parametrize("strict", [pytest.param(True, marks=pytest.mark.slow), False])
def test_exported_program_is_as_small_as_it_can_be(strict: bool) -> None:
    network = nn.Sequential(nn.Linear(4, 4), GELU("sigmoid"), GELU("tanh"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        program = torch.export.export(network, (torch.zeros(2, 4),), strict=strict)
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert [name.split(".")[1] for name in called] == ["linear", "mul", "sigmoid", "mul", "gelu"]


@pytest.mark.parametrize(("exporter", "opset"), [("dynamo", 20), ("torchscript", 17)])
def test_exports_to_sites_of_the_form(exporter: str, opset: int, tmp_path: Path) -> None:
    layers = [layer for form in table.FORMS for layer in (nn.Linear(8, 8), GELU(form))]
    result = gelu_deploy.export(
        nn.Sequential(*layers), output=tmp_path / "m.onnx", input="input:2x8:float32", exporter=exporter, opset=opset
    )
    assert result["verdict"] == "pass", result["reason"]
    assert [site["form"] for site in result["sites"]] == list(table.FORMS)
    assert [site["module"] for site in result["sites"]] == [str(2 * i + 1) for i in range(len(table.FORMS))]
    assert all(len(site["kernels"]) == 1 for site in result["sites"] if site["form"] in ONE_KERNEL)


def test_fp16_safe_exports_to_one_kernel_where_float16_has_none(tmp_path: Path) -> None:
    kernels = {}
    for safe in (False, True):
        network = nn.Sequential(nn.Linear(8, 8), GELU("erf", fp16_safe=safe))
        output = tmp_path / f"{safe}.onnx"
        result = gelu_deploy.export(
            network, output=output, input="input:2x8:float32", dtype="float16", exporter="torchscript", opset=17
        )
        (site,) = result["sites"]
        assert (site["form"], result["verdict"]) == ("erf", "pass")
        kernels[safe] = site["kernels"]
    assert len(kernels[False]) > 1
    assert kernels[True] == ["Gelu"]


def test_torch_is_asked_for_by_name() -> None:
    code = "import sys; sys.modules['torch'] = None; import gelu_deploy.nn"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "SetupError: gelu_deploy.nn needs PyTorch; pip install 'gelu-deploy[torch]'" in done.stderr

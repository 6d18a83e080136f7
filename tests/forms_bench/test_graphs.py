"""The ONNX files of one GELU each: valid, right, and fused where the runtime can."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from gelu_deploy.forms_bench.graphs import OPSET, RESULT, alone
from gelu_deploy.gelu import FORMS, REFERENCES, Form
from gelu_deploy.gelu.spellings import ATEN
from gelu_deploy.graph.kernels import KernelIndex
from gelu_deploy.runtime import evaluate, optimised

SPELLED = [(f, name) for f in (*FORMS.values(), *REFERENCES.values()) for name in f.spellings if name != ATEN]
FUSED = {"erf": {"ops": "Gelu"}, "tanh": {"ops": "FastGelu"}, "sigmoid": {"ops": "QuickGelu"}}


@pytest.mark.parametrize(("form", "name"), SPELLED, ids=lambda one: one if isinstance(one, str) else one.name)
def test_every_spelling_is_a_valid_graph_that_computes_the_form(form: Form, name: str) -> None:
    steps = form.spellings[name].steps
    model = alone(steps)
    if not any(step.domain for step in steps):
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
    x = np.linspace(-8, 8, 512, dtype=np.float32).reshape(2, 256)
    for optimise in (False, True):
        got = evaluate(model, {"x": x}, optimise=optimise)["y"]
        assert got.shape == (1, 256)
        np.testing.assert_allclose(got, form.reference(x[:1]), rtol=0, atol=3e-6)
    kernels = KernelIndex(optimised(model)).of("x", RESULT).ops
    known = FUSED.get(form.name, {}).get(name)
    assert kernels == (known,) if known else len(kernels) == len(steps)


def test_the_opset_has_every_spelling() -> None:
    assert max(form.spellings[name].since for form, name in SPELLED) == OPSET

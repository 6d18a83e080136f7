"""Every engine computes every form, and answers with its first row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from gelu_deploy.forms_bench import engines
from gelu_deploy.forms_bench.graphs import COPIED, alone
from gelu_deploy.gelu import FORMS, REFERENCES
from gelu_deploy.gelu.precision import PRIMITIVE

ALL = {**FORMS, **REFERENCES}
X = np.random.default_rng(1).normal(0, 3, (4, 256)).astype(np.float32)
SPELLED = [
    (form.name, name)
    for form in ALL.values()
    for name, spelling in form.spellings.items()
    if all(step.op in PRIMITIVE for step in spelling.steps)
]


def check(got: dict[str, np.ndarray], form: str) -> None:
    assert got["y"].dtype == np.float32
    wanted = X[:1] if form == engines.COPY else ALL[form].reference(X[:1])
    np.testing.assert_allclose(got["y"], wanted, rtol=0, atol=3e-6)


@pytest.mark.parametrize(("form", "spelling"), [(engines.COPY, ""), *SPELLED])
def test_numpy(form: str, spelling: str) -> None:
    check(engines.numpy(form, spelling)({"x": X}), form)


@pytest.mark.parametrize("form", [engines.COPY, *ALL])
def test_pytorch(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    check(engines.pytorch(form, compiled=False)({"x": X}), form)


def test_the_runtime_without_its_fusions(tmp_path: Path) -> None:
    for name, steps in ((engines.COPY, COPIED), ("tanh", FORMS["tanh"].spellings["ops"].steps)):
        file = tmp_path / f"{name}.onnx"
        ir.save(alone(steps), file)
        check(dict(engines.unfused(str(file))({"x": X})), name)


def test_a_copy_is_no_view() -> None:
    x = X.copy()
    got = engines.numpy(engines.COPY, "")({"x": x})["y"]
    x[:] = 0
    assert (got == X[:1]).all()

"""The table of what other runtimes make of every form in every spelling, measured again where they are installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, Formula, model, op

from gelu_deploy import gelu
from gelu_deploy.errors import GeluDeployError, SetupError
from gelu_deploy.options.exporting import RuntimeName
from gelu_deploy.others import RUNTIMES
from gelu_deploy.others.apart import Answers, Job, run
from gelu_deploy.others.computed import COMPUTED, MEASURED_WITH, REFUSED
from gelu_deploy.others.judge import nearest

WIDTH = 8
X = np.concatenate([np.linspace(-6, 6, 481), [-40, -12, 12, 40, 0, 0, 0]]).astype(np.float32).reshape(-1, WIDTH)
SHIFT = np.roll(np.eye(WIDTH, dtype=np.float32), 1, axis=1)
"""A weight that only moves numbers: what comes out is exactly what the GELU gave."""
SPELLINGS = [(form.name, spelling) for form in gelu.FORMS.values() for spelling in form.spellings]


def spelled(form: str, spelling: str, x: Expression) -> Expression:
    values: dict[str | float, Expression | float] = {"x": x, "alpha": gelu.ALPHA}
    for step in gelu.FORMS[form].spellings[spelling].steps:
        attributes = {key: values.get(value, value) for key, value in step.attributes.items()}
        inputs = [values.get(item, item) for item in step.inputs]
        values[step.output] = op(step.op, *inputs, domain=step.domain, **attributes)  # type: ignore[arg-type]
    result = values["y"]
    assert isinstance(result, Expression)
    return result


def jobs() -> Iterator[Job]:
    """Every form in every spelling: alone, then between two layers."""
    for form, spelling in SPELLINGS:

        def site(x: Expression, form: str = form, spelling: str = spelling) -> Expression:
            return spelled(form, spelling, x)

        def between(x: Expression, site: Formula = site) -> Expression:
            hidden = op("Add", op("MatMul", x, SHIFT), np.full(WIDTH, 0.25, np.float32))
            return op("MatMul", site(hidden), SHIFT.T.copy())

        opset = max(17, gelu.FORMS[form].spellings[spelling].since)
        for formula, x in ((site, X), (between, X - np.float32(0.25))):
            proto = ir.to_proto(model(formula, shape=("n", WIDTH), opset=opset))
            yield Job(proto.SerializeToString(), ["y"], [{"x": x}])


def form_of(answer: Answers | GeluDeployError) -> str:
    return nearest(X, answer.outputs[0]["y"]).form if isinstance(answer, Answers) else REFUSED


@pytest.mark.parametrize("name", RUNTIMES)
def test_the_table_says_what_the_runtime_computes(name: str) -> None:
    assert list(COMPUTED[name]) == SPELLINGS
    try:
        answers = run(name, list(jobs()))
    except SetupError as error:
        pytest.skip(str(error))
    (version,) = {answer.version for answer in answers if isinstance(answer, Answers)}
    if version != MEASURED_WITH[name]:
        pytest.skip(f"the table was measured with {name} {MEASURED_WITH[name]}, here is {version}")
    forms = [form_of(answer) for answer in answers]
    assert dict(zip(SPELLINGS, forms[::2], strict=True)) == COMPUTED[name], "alone"
    assert dict(zip(SPELLINGS, forms[1::2], strict=True)) == COMPUTED[name], "between two layers"


def test_every_runtime_has_its_table_and_its_name_in_the_options() -> None:
    assert list(get_args(RuntimeName)) == list(RUNTIMES) == list(COMPUTED) == list(MEASURED_WITH)

"""Every spelling as data: its operators exist from the operator set that it names on, and compute the form."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import defs

from gelu_deploy.gelu import FORMS, REFERENCES, Form, precision
from gelu_deploy.gelu.spellings import ATEN, HIDDEN

SPELLED = [(form, name) for form in (*FORMS.values(), *REFERENCES.values()) for name in form.spellings]
NAMES = [f"{form.name}-{name}" for form, name in SPELLED]
BROADCAST = {"Min": 8, "Max": 8}
"""Operators that exist longer than they take inputs of different shapes."""


@pytest.mark.parametrize(("form", "name"), SPELLED, ids=NAMES)
def test_since_is_the_first_operator_set_that_has_all(form: Form, name: str) -> None:
    steps = [step for step in form.spellings[name].steps if not step.domain]
    first = [
        BROADCAST.get(step.op) or min(s.since_version for s in defs.get_all_schemas_with_history() if s.name == step.op)
        for step in steps
        if step.domain != ATEN
    ]
    assert form.spellings[name].since == max([7, *first])


@pytest.mark.parametrize(("form", "name"), SPELLED, ids=NAMES)
def test_the_operators_compute_the_form(form: Form, name: str) -> None:
    x = np.linspace(-10, 10, 4001)
    got, finite = precision.computed(form, name, x)
    assert finite.all()
    np.testing.assert_allclose(got, form.reference(x), rtol=0, atol=1e-14)


def test_the_hidden_spelling_is_one_that_can_be_asked_for() -> None:
    hidden = [form for form in FORMS.values() if HIDDEN in form.spellings]
    assert [form.name for form in hidden] == ["tanh"]
    assert hidden[0].spellings[HIDDEN] == hidden[0].spellings["sigmoid3"]


def test_references_are_no_forms() -> None:
    assert not set(FORMS) & set(REFERENCES)

"""``forms``: the table as a whole, its cross-references, and that it needs no heavy package."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from forms_sample import measured

import gelu_deploy
from gelu_deploy.errors import UsageError
from gelu_deploy.gelu import FORMS, REFERENCES, precision
from gelu_deploy.results import FormsResult


@pytest.fixture(scope="module")
def result() -> FormsResult:
    return measured()


def test_every_form_once_and_every_spelling_that_can_be_asked_for(result: FormsResult) -> None:
    assert result["schema"] == "gelu-deploy/forms/1"
    assert [form["name"] for form in result["forms"]] == [*FORMS, *REFERENCES]
    assert {form["name"] for form in result["forms"] if form["offered"]} == set(FORMS)
    assert [one["name"] for one in result["forms"][1]["spellings"]] == ["ops", "sigmoid3", "gelu", "contrib"]


def test_what_export_offers_is_what_is_offered(result: FormsResult) -> None:
    for form in result["forms"]:
        if not form["offered"]:
            with pytest.raises(UsageError, match="there is no such form"):
                gelu_deploy.export("nothing.onnx", form=form["name"])


def test_operators_and_opset_are_those_of_the_spelling(result: FormsResult) -> None:
    by_name = {(form["name"], one["name"]): one for form in result["forms"] for one in form["spellings"]}
    erf = by_name["erf", "ops"]
    assert (erf["operators"], erf["opset"], erf["domain"]) == (["Mul", "Div", "Erf", "Add", "Mul"], 9, "")
    assert (by_name["erf", "gelu"]["opset"], by_name["erf", "gelu"]["operators"]) == (20, ["Gelu"])
    assert by_name["tanh", "contrib"]["domain"] == "com.microsoft"
    assert (by_name["erfc", "aten"]["opset"], by_name["erfc", "aten"]["domain"]) == (0, "aten")
    assert by_name["tanh", "ops"]["safe"]["float16"] == 40.3125
    assert all(set(one["safe"]) == set(precision.TYPES) for one in by_name.values())


def test_the_published_numbers_are_in_it(result: FormsResult) -> None:
    forms = {form["name"]: form for form in result["forms"]}
    assert f"{forms['tanh']['absolute']['value']:.3e}" == "4.732e-04"
    assert f"{forms['sigmoid']['absolute']['value']:.4e}" == "2.0335e-02"
    assert f"{forms['as7127']['erf']['value']:.1e}" == "4.7e-04"
    assert (f"{forms['igelu']['absolute']['value']:.4f}", f"{forms['hgelu']['absolute']['value']:.4f}") == (
        *("0.0182", "0.0687"),
    )
    assert forms["erf"]["absolute"]["value"] == forms["erf"]["codes_changed"] == 0
    assert forms["tanh"]["codes_changed"] < 0.006 < forms["sigmoid"]["codes_changed"]


def test_it_needs_no_heavy_package() -> None:
    code = (
        "import sys, json; from gelu_deploy.cli import main; main(['forms', '--json', '-']); "
        "print(json.dumps([name for name in ('torch', 'onnx', 'onnx_ir', 'onnxruntime', 'scipy') "
        "if name in sys.modules]), file=sys.stderr)"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(child.stderr) == []
    assert json.loads(child.stdout)["forms"][0]["name"] == "erf"

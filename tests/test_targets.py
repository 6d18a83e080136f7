"""The table of targets: every fact has its source, and a graph that does not fit is refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import onnx_ir as ir
import pytest
from onnx import defs, parser

from gelu_deploy import gelu
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite
from gelu_deploy.targets import TARGETS, named
from gelu_deploy.targets.fitting import WriteOut, fits, refuse_forms, refuse_operators
from gelu_deploy.targets.page import page

SOURCE = re.compile(
    r"https://|[\w-]+/[\w-]+ [\w./-]+\.md|measured with [\w ]+ \d|the same list|the operators of a form"
)
KNOWN = {schema.name for schema in defs.get_all_schemas_with_history() if schema.domain == ""}
NOT_OF_ONNX = {"Affine", "Crop", "DynamicSlice", "ImageScaler", "Inverse", "ParametricSoftplus", "ScaledTanh"}
"""Operators in the makers' own lists that were experimental once."""


def parsed(text: str, opset: int = 20) -> ir.Model:
    head = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1, "own": 1]>'
    return ir.from_proto(parser.parse_model(f"{head} g (float[7, 4] x) => (float[7, 4] y) {text}"))


@pytest.mark.parametrize("name", TARGETS)
def test_every_fact_has_a_source(name: str) -> None:
    target = TARGETS[name]
    facts = {"opset", "spellings", "operators"} | ({"instead"} if target.instead else set())
    assert set(target.sources) == facts
    for fact, source in target.sources.items():
        assert SOURCE.search(source) or fact == "instead", source
    assert target.opset <= target.newest
    if target.operators is not None:
        assert target.operators - KNOWN <= NOT_OF_ONNX | {"SimplifiedLayerNormalization"}
        assert {"Conv", "MatMul", "Add", "Mul", "Reshape", "Transpose", "Constant"} <= target.operators


@pytest.mark.parametrize("name", TARGETS)
def test_what_it_writes_is_taken_and_computed_as_written(name: str) -> None:
    target = TARGETS[name]
    written = target.written(target.opset)
    assert {"tanh", "sigmoid"} <= set(written)
    assert ("erf" in written) == (name != "rknn")
    for form, spelling in written.items():
        assert (form, spelling) not in target.instead
        assert gelu.FORMS[form].spellings[spelling].since <= target.opset
        assert target.missing(form, spelling) == ""


def test_a_spelling_that_the_opset_lacks_is_not_chosen() -> None:
    assert TARGETS["ort-cpu"].spelling("erf", 20) == "gelu"
    assert TARGETS["ort-cpu"].spelling("erf", 17) == "ops"
    assert TARGETS["qnn"].spelling("erf", 17) is None


def test_names_are_checked() -> None:
    assert named(None) is None
    assert named("mnn") is TARGETS["mnn"]
    with pytest.raises(UsageError, match=r"--target opencv4: there is no such target; did you mean opencv\?"):
        named("opencv4")
    with pytest.raises(UsageError, match="there are ort-cpu, ort-cuda"):
        named("xyz")


@pytest.mark.parametrize(
    ("name", "op", "domain", "taken"),
    [
        ("ort-cpu", "Mish", "", True),
        ("ort-cpu", "Gelu", "com.microsoft", True),
        ("ort-cpu", "Scaler", "ai.onnx.ml", True),
        ("portable-13", "Gelu", "com.microsoft", False),
        ("portable-13", "Scaler", "ai.onnx.ml", False),
        ("opencv", "Gelu", "com.microsoft", True),
        ("opencv", "FastGelu", "com.microsoft", False),
        ("rknn", "Erf", "", False),
        ("rknn", "Erf", "ai.onnx", False),
        ("tensorrt", "Erf", "", True),
    ],
)
def test_operators_by_domain(name: str, op: str, domain: str, *, taken: bool) -> None:
    assert TARGETS[name].takes(op, domain) == taken


@pytest.mark.parametrize(
    ("name", "spelling", "message"),
    [
        ("rknn", "ops", r"Erf in y_name is not an operator of rknn: say --form tanh or sigmoid"),
        ("mnn", "gelu", r"mnn computes erf written as gelu as tanh, in y_name: leave --spelling away.* written as ops"),
        ("portable-13", "contrib", r"Gelu in y_name is not an operator of portable-13: leave --spelling away"),
    ],
)
def test_a_gelu_that_would_be_something_else_is_refused(name: str, spelling: str, message: str) -> None:
    model = parsed("{ y = Gelu(x) }")
    model.graph[0].name = "y_name"
    (site,) = find(model).sites
    plan = Rewrite((site,), "erf", spelling).plan(site)
    with pytest.raises((ModelError, UsageError), match=message):
        refuse_forms([plan], TARGETS[name], 20)


def test_an_excluded_gelu_that_is_computed_as_another_is_told() -> None:
    model = parsed('{ y = Gelu<approximate="tanh">(x) }')
    (site,) = find(model).sites
    plan = Rewrite((site,), exclude=["*"]).plan(site)
    (note,) = refuse_forms([plan], TARGETS["opencv"], 20)
    assert note == "opencv computes tanh as erf in y, which --exclude leaves as it is"


def test_foreign_operators_are_named_wherever_they_stand() -> None:
    body = (
        "<then_branch = t () => (float[7, 4] p) { p = Erf(x) }, else_branch = e () => (float[7, 4] q) { q = Abs(x) }>"
    )
    model = parsed(f"{{ c = Constant<value_int=1>() b = Cast<to=9>(c) z = If(b) {body} y = own.Mine(z) }}")
    function = "<domain: 'own', opset_import: ['': 20]> Mine (a) => (b) { b = Floor(a) }".replace("'", '"')
    made = ir.serde.deserialize_function(parser.parse_function(function))
    model.functions[made.identifier()] = made
    with pytest.raises(ModelError) as error:
        refuse_operators(model, TARGETS["rknn"])
    assert re.search(r"not an operator of rknn: Erf in p; Abs in q; Floor in b\. Take another", str(error.value))
    assert fits(model, TARGETS["ort-cpu"])
    assert not fits(model, TARGETS["rknn"])


def test_a_foreign_operator_is_written_out_where_it_has_simpler_ones() -> None:
    model = parsed("<float[4] s = {1.0, 2.0, 3.0, 4.0}> { n = LayerNormalization(x, s) y = HardSwish(n) }", 19)
    result = WriteOut(TARGETS["rknn"]).apply(model)
    assert result.notes == ("1 LayerNormalization written out for rknn",)
    refuse_operators(model, TARGETS["rknn"])
    assert "HardSwish" in {node.op_type for node in model.graph}


def test_the_page_is_current(root: Path) -> None:
    assert (root / "docs" / "targets.md").read_text(encoding="utf-8") == page()

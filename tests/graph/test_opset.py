"""Another operator set: same answers, same modules, and a name for what cannot be written."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import checker, parser

from gelu_deploy import runtime
from gelu_deploy.errors import ModelError
from gelu_deploy.graph.opset import HIDDEN, Convert
from gelu_deploy.graph.scopes import MODULE, module_of

X = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)

SAME = {
    "split, even": "(float[7, 2] a, float[7, 2] b) { a, b = Split<axis=1, num_outputs=2>(x) }",
    "split, last part smaller": "(float[4, 4] a, float[3, 4] b) { a, b = Split<axis=0, num_outputs=2>(x) }",
    "split, from behind": "(float[4, 4] a, float[3, 4] b) { a, b = Split<axis=-2, num_outputs=2>(x) }",
    "split, three parts": "(float[3, 4] a, float[3, 4] b, float[1, 4] c) { a, b, c = Split<num_outputs=3>(x) }",
    "split, sizes": "(float[2, 4] a, float[5, 4] b) <int64[2] s = {2, 5}> { a, b = Split<axis=0>(x, s) }",
    "mean": "(float[7, 1] y) <int64[1] s = {-1}> { y = ReduceMean<keepdims=1, noop_with_empty_axes=0>(x, s) }",
    "mean, axes as integers": "(float[7] y) { s = Constant<value_ints=[-1]>() y = ReduceMean<keepdims=0>(x, s) }",
    "mean, of all": "(float y) { y = ReduceMean<keepdims=0, noop_with_empty_axes=0>(x) }",
    "sum": "(float[7] y) <int64[1] s = {-1}> { y = ReduceSum<keepdims=0, noop_with_empty_axes=1>(x, s) }",
    "sum of nothing": "(float[7, 4] y) { y = ReduceSum<keepdims=0, noop_with_empty_axes=1>(x) }",
    "maximum": "(float[7] y) <int64[1] s = {-1}> { y = ReduceMax<keepdims=0, noop_with_empty_axes=0>(x, s) }",
    "norm": "(float[7] y) <int64[1] s = {1}> { y = ReduceL2<keepdims=0, noop_with_empty_axes=0>(x, s) }",
    "pad": "(float[9, 4] y) <int64[4] s = {1, 0, 1, 0}> { y = Pad(x, s) }",
    "of another domain": "(float[7, 4] y) { y = com.microsoft.Gelu(x) }",
}


def parsed(text: str, opset: int = 20) -> ir.Model:
    head = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'
    return ir.from_proto(parser.parse_model(f"{head} g {text}"))


def answers(model: ir.Model, **feeds: Any) -> list[Any]:
    proto = ir.to_proto(model)
    checker.check_model(proto, full_check=True)
    return list(runtime.evaluate(proto.SerializeToString(), feeds or {"x": X}, optimise=False).values())


def assert_same(before: ir.Model, after: ir.Model, **feeds: Any) -> None:
    for got, wanted in zip(answers(after, **feeds), answers(before, **feeds), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", SAME)
def test_lowered_to_17_the_answers_are_the_same(name: str) -> None:
    model = parsed(f"(float[7, 4] x) => {SAME[name]}")
    as_it_was = ir.to_proto(model)
    result = Convert(17).apply(model)
    assert result.modified
    assert result.notes == ("opset 20 -> 17 by the version converter",)
    assert result.model.opset_imports[""] == 17
    assert HIDDEN not in result.model.opset_imports
    assert ir.to_proto(model) == as_it_was
    assert_same(model, result.model)


def test_a_split_inside_a_branch() -> None:
    then = "<then_branch = t () => (float[4, 4] p) { p, q = Split<axis=0, num_outputs=2>(x) },"
    other = "else_branch = e () => (float[7, 4] r) { r = Identity(x) }>"
    model = parsed(f"(bool c, float[7, 4] x) => (float[P, 4] y) {{ y = If(c) {then} {other} }}")
    lowered = Convert(17).apply(model).model
    for c in (True, False):
        assert_same(model, lowered, c=np.array(c), x=X)


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("Gelu", "(float[7, 4] x) => (float[7, 4] y) { y = Gelu(x) }"),
        ("Mish", "(float[7, 4] x) => (float[7, 4] y) { y = Mish(x) }"),
        ("BitwiseAnd", "(int32[7] x) => (int32[7] y) { y = BitwiseAnd(x, x) }"),
        ("Pad", "(float[7, 4] x) => (float[9, 4] y) <int64[2] s={1, 1}, int64[1] a={0}> { y = Pad(x, s, , a) }"),
        ("Pad", '(float[7, 4] x) => (float[9, 4] y) <int64[4] s={1, 0, 1, 0}> { y = Pad<mode="wrap">(x, s) }'),
        ("ReduceMean", "(float[7, 4] x, int64[1] s) => (float[A] y) { y = ReduceMean<keepdims=0>(x, s) }"),
        ("ReduceMean", "(float[7, 4] x) => (float[7, 4] y) { y = ReduceMean<noop_with_empty_axes=1>(x) }"),
    ],
)
def test_what_has_no_older_form_is_named_with_the_way_out(operator: str, text: str) -> None:
    with pytest.raises(ModelError, match=rf"opset 20 -> 17: .*{operator}.*higher --opset.*--exporter torchscript"):
        Convert(17).apply(parsed(text))


def test_layer_normalization_ends_at_17() -> None:
    model = parsed("(float[7, 4] x) => (float[7, 4] y) <float[1] s = {1.0}> { y = LayerNormalization(x, s) }", 17)
    with pytest.raises(ModelError, match="opset 17 -> 16: the version converter has no form of LayerNormalization"):
        Convert(16).apply(model)


def test_modules_survive_the_converter() -> None:
    text = "(float[N, 4] x) => (float[M] y) <int64[1] s = {-1}> { a = Erf(x) b, c = Split<axis=1, num_outputs=2>(a)"
    model = parsed(f"{text} d = Add(b, c) y = ReduceMean<keepdims=0>(d, s) }}")
    for node, module in zip(model.graph, ["act", "gate", "gate", "pool"], strict=True):
        node.metadata_props[MODULE] = module
    lowered = Convert(17).apply(model).model
    assert [(node.op_type, module_of(node)) for node in lowered.graph] == [
        ("Erf", "act"),
        ("Split", "gate"),
        ("Add", "gate"),
        ("ReduceMean", "pool"),
    ]


def test_raised_from_11_to_20() -> None:
    text = "{ m = ReduceMean<axes=[-1]>(x) u = Unsqueeze<axes=[0]>(m) q = Squeeze<axes=[0]>(u) c = Clip(q, low, high)"
    head = "(float[7, 4] x) => (float[7, 1] y) <float low = {-0.1}, float high = {0.1}>"
    model = parsed(f"{head} {text} e = Erf(c) y = Softmax<axis=1>(e) }}", 11)
    for node in model.graph:
        node.metadata_props[MODULE] = "head"
    raised = Convert(20).apply(model).model
    assert raised.opset_imports[""] == 20
    assert {module_of(node) for node in raised.graph} == {"head"}
    assert_same(model, raised)


def test_at_the_same_set_nothing_is_done() -> None:
    model = parsed("(float[7, 4] x) => (float[7, 4] y) { y = Erf(x) }")
    result = Convert(20).apply(model)
    assert result.model is model
    assert not result.modified

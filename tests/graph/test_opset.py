"""Another operator set: same answers, same modules, and a name for what cannot be written."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import checker, defs, parser

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

LAST = "j = Cast<to=6>(s) k = Cast<to=7>(j) y = ReduceMax<keepdims=0>(i, k)"

WRITTEN_OUT = {
    "LayerNormalization": (
        20,
        "<float[4] s = {1.0, 2.0, 3.0, 4.0}, float[4] b = {4.0, 3.0, 2.0, 1.0}> { y = LayerNormalization(x, s, b) }",
    ),
    "Gelu": (20, '{ y = Gelu<approximate="tanh">(x) }'),
    "Mish": (20, "{ y = Mish(x) }"),
    "HardSwish": (20, "{ y = HardSwish(x) }"),
    "Swish": (24, "{ y = Swish(x) }"),
    "RMSNormalization": (23, "<float[4] s = {1.0, 2.0, 3.0, 4.0}> { y = RMSNormalization(x, s) }"),
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
        ("ImageDecoder", "(uint8[n] x) => (uint8[a, b, c] y) { y = ImageDecoder(x) }"),
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


def test_everything_without_an_older_form_is_named_at_once() -> None:
    text = (
        "{ a, b, c, d = Split<num_outputs=4, axis=1>(x) e = BitwiseAnd(a, b) f = BitwiseAnd(b, c) g = BitwiseAnd(c, d)"
    )
    model = parsed(
        f"(int32[7, 4] x, int64[1] s) => (int32[m] y) {text} h = BitwiseOr(e, f) i = BitwiseAnd(g, h) {LAST} }}"
    )
    for node in model.graph:
        node.metadata_props[MODULE] = "mask"
        node.name = f"n_{node.outputs[0].name}"
    with pytest.raises(ModelError) as error:
        Convert(17).apply(model)
    assert str(error.value).startswith(
        "opset 20 -> 17: the older set has no BitwiseAnd, needed in mask (n_e), mask (n_f), mask (n_g) and 1 more; "
        "no BitwiseOr, needed in mask (n_h); no such ReduceMax (axes that are computed), needed in mask (n_y); "
    )


@pytest.mark.parametrize("opset", [16, 13, 12, 11])
@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_is_too_new_is_written_out(name: str, opset: int) -> None:
    own, text = WRITTEN_OUT[name]
    model = parsed(f"(float[7, 4] x) => (float[7, 4] y) {text}", own)
    lowered = Convert(opset).apply(model).model
    assert lowered.opset_imports[""] == opset
    assert name not in {node.op_type for node in lowered.graph} or defs.has(name, opset)
    for got, wanted in zip(answers(lowered), answers(model), strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-6)


def test_the_file_is_as_old_as_its_opset() -> None:
    model = parsed("(float[7, 4] x) => (float[7, 4] y) { y = Erf(x) }")
    assert [Convert(opset).apply(model).model.ir_version for opset in (19, 17, 13, 11)] == [9, 8, 7, 6]


def test_what_an_operator_says_of_newer_options_by_default_goes() -> None:
    text = "<int64[2] s = {4, 7}> { i = Cast<to=6, saturate=1>(x) f = Cast<to=1>(i) r = Reshape<allowzero=1>(f, s)"
    model = parsed(f"(float[7, 4] x) => (float[m, n] y) {text} h = Shape<start=1>(r) y = Expand(r, h) }}")
    lowered = Convert(13).apply(model).model
    assert not {"saturate", "allowzero", "start"} & {name for node in lowered.graph for name in node.attributes}
    assert_same(model, lowered)


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("Add", "(int8[7] x) => (int8[7] y) { y = Add(x, x) }"),
        ("Reshape", "(float[0, 4] x) => (float[0, 2] y) <int64[2] s={0, 2}> { y = Reshape<allowzero=1>(x, s) }"),
        (
            "ScatterND",
            '(float[7] x, int64[2, 1] i, float[2] u) => (float[7] y) { y = ScatterND<reduction="add">(x, i, u) }',
        ),
        (
            "RoiAlign",
            "(float[1, 1, 8, 8] x, float[1, 4] r, int64[1] i) => (float[1, 1, 1, 1] y) { y = RoiAlign(x, r, i) }",
        ),
    ],
)
def test_what_means_something_else_in_the_older_set_is_refused(operator: str, text: str) -> None:
    with pytest.raises(ModelError, match=rf"opset 20 -> 13: .*{operator}"):
        Convert(13).apply(parsed(text))


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

"""Attention in one operator: which is written so, what stays, and that no answer changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import checker, parser

from gelu_deploy import runtime
from gelu_deploy.graph.attention import OPERATOR, WholeAttention, separate
from gelu_deploy.graph.scopes import MODULE, module_of
from gelu_deploy.parity import Limits, compare

CALL = "Attention ({0}, {1}, {2})"


def attention(
    q: str = "q", k: str = "k", v: str = "v", y: str = "y", *, call: str = "Attention ({0}, {1}, {2})"
) -> str:
    """Rows cut into two heads of four, ``call`` over them, and joined."""
    cut = (
        f"{x}4{y} = Reshape ({x}, cut{y})  {x}h{y} = Transpose <perm = [0, 2, 1, 3]> ({x}4{y})"
        for x in dict.fromkeys((q, k, v))
    )
    heads = [f"{x}h{y}" for x in (q, k, v)]
    return f"""
      cut{y} = Constant <value_ints = [0, 0, 2, 4]> () join{y} = Constant <value_ints = [0, 0, 8]> ()
      {" ".join(cut)}
      a{y} = {call.format(*heads)}
      t{y} = Transpose <perm = [0, 2, 1, 3]> (a{y}) {y} = Reshape (t{y}, join{y})
    """


PLAIN = attention()
INPUTS = "float[n, 5, 8] q, float[n, t, 8] k, float[n, t, 8] v"
FREE = {"n": 2, "t": 7}


def graph(body: str, *, inputs: str = INPUTS, outputs: str = "float[n, 5, 8] y") -> ir.Model:
    text = f'<ir_version: 11, opset_import: ["": 23]> g ({inputs}) => ({outputs}) {{ {body} }}'
    model = ir.from_proto(parser.parse_model(text))
    ir.passes.common.ShapeInferencePass()(model)
    return model


def answers(model: ir.Model) -> dict[str, Any]:
    proto = ir.to_proto(model)
    checker.check_model(proto, full_check=True)
    feeds = dict[str, Any]()
    for number, value in enumerate(model.graph.inputs):
        shape = [size if isinstance(size, int) else FREE[str(size)] for size in value.shape or ()]
        made = np.random.default_rng(number).standard_normal(shape)
        feeds[value.name or ""] = made > 0 if value.dtype == ir.DataType.BOOL else made.astype("f")
    return runtime.evaluate(proto.SerializeToString(), feeds, optimise=False)


def written(model: ir.Model) -> list[str]:
    """The operators after the pass; the answers are the same, and a second pass does nothing."""
    wanted = answers(model)
    assert separate(model)
    assert WholeAttention().apply(model).modified
    got = answers(model)
    stage = compare("attention", ((name, got[name], wanted[name]) for name in wanted), Limits())
    assert stage["passed"], stage
    assert not separate(model)
    assert not WholeAttention().apply(model).modified
    return [node.op_type for node in model.graph]


def test_what_cuts_heads_and_joins_them_is_gone() -> None:
    model = graph(PLAIN)
    attention = next(node for node in model.graph if node.op_type == "Attention")
    attention.metadata_props[MODULE] = "layers.0.attention"
    assert written(model) == [OPERATOR]
    assert module_of(model.graph[0]) == "layers.0.attention"
    assert model.graph.outputs[0].name == "y"


def test_the_scale_stays() -> None:
    assert written(graph(attention(call="Attention <scale = 0.9> ({0}, {1}, {2})"))) == [OPERATOR]


def test_rows_that_others_read_too() -> None:
    model = graph(f"{PLAIN} z = Add (y, q)", outputs="float[n, 5, 8] y, float[n, 5, 8] z")
    assert sorted(written(model)) == ["Add", OPERATOR]


def test_one_after_another() -> None:
    body = attention() + attention("y", "y", "y", "z")
    assert written(graph(body, outputs="float[n, 5, 8] z")) == [OPERATOR, OPERATOR]


MASKED = "Attention ({0}, {1}, {2}, x)"
MASKS = [
    ("a constant", "m = Constant <value = bool[1, 1, 5, 1] {1, 1, 1, 1, 1}> () e = Identity (m)"),
    ("nothing is added", "m = Constant <value = float[5, 1] {0, 0, 0, 0, 0}> () e = Identity (m)"),
]


@pytest.mark.parametrize("mask", [mask for _, mask in MASKS], ids=[why for why, _ in MASKS])
def test_a_mask_that_forbids_nothing_is_gone(mask: str) -> None:
    body = f"{mask} l = Constant <value_ints = [2, 2, 5, 7]> () x = Expand (e, l) {attention(call=MASKED)}"
    inputs = "float[2, 5, 8] q, float[2, 7, 8] k, float[2, 7, 8] v"
    assert written(graph(body, inputs=inputs, outputs="float[2, 5, 8] y")) == [OPERATOR]


def called(call: str, **others: str) -> Callable[[], ir.Model]:
    return lambda: graph(attention(call=call), **others)


FORBIDS = "m = Constant <value = bool[5, 1] {1, 1, 0, 1, 1}> () l = Constant <value_ints = [5, 7]> () x = Expand (m, l)"
FEWER = """
  two = Constant <value_ints = [0, 0, 2, 4]> () q4 = Reshape (q, two) qh = Transpose <perm = [0, 2, 1, 3]> (q4)
  one = Constant <value_ints = [0, 0, 1, 4]> () k4 = Reshape (k, one) kh = Transpose <perm = [0, 2, 1, 3]> (k4)
  a = Attention (qh, kh, kh) ah = Transpose <perm = [0, 2, 1, 3]> (a)
  join = Constant <value_ints = [0, 0, 8]> () y = Reshape (ah, join)
"""
TURNED = "ty = Transpose <perm = [0, 2, 1"
HEADS = "float[n, 2, 5, 4] q"
SCORES = "float[n, 5, 8] y, float[n, 2, 5, t] r"
HALF = INPUTS.replace("float", "float16")
KEPT: list[tuple[str, Callable[[], ir.Model]]] = [
    ("a mask", called(MASKED, inputs=f"{INPUTS}, bool[5, t] x")),
    ("what is added", called(MASKED, inputs=f"{INPUTS}, float[5, t] x")),
    ("a mask that forbids one", lambda: graph(FORBIDS + attention(call=MASKED))),
    (
        "a mask that forbids all",
        lambda: graph(FORBIDS.replace("1, 1, 0, 1, 1", "0, 0, 0, 0, 0") + attention(call=MASKED)),
    ),
    ("only what came before", called("Attention <is_causal = 1> ({0}, {1}, {2})")),
    ("a cap", called("Attention <softcap = 2.0> ({0}, {1}, {2})")),
    ("16 bits", called(CALL, inputs=HALF, outputs="float16[n, 5, 8] y")),
    ("no heads cut", lambda: graph("y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)")),
    ("heads as the caller has them", lambda: graph("y = Attention (q, q, q)", inputs=HEADS, outputs=f"{HEADS[:-1]}y")),
    ("fewer heads of keys", lambda: graph(FEWER, inputs="float[n, 5, 8] q, float[n, t, 4] k")),
    ("the heads are an output", called(CALL, outputs="float[n, 2, 5, 4] ay, float[n, 5, 8] y")),
    ("the scores are an output", lambda: graph(attention().replace("ay = ", "ay, no, old, r = "), outputs=SCORES)),
    (
        "axes in another order",
        lambda: graph(attention().replace(TURNED, TURNED.replace("2, 1", "1, 2"))),
    ),
]


@pytest.mark.parametrize("make", [make for _, make in KEPT], ids=[why for why, _ in KEPT])
def test_what_means_something_else_stays(make: Callable[[], ir.Model]) -> None:
    model = make()
    before = [node.op_type for node in model.graph]
    assert not separate(model)
    assert not WholeAttention().apply(model).modified
    assert [node.op_type for node in model.graph] == before


def test_rows_of_all_sequences_one_below_the_other() -> None:
    """As onnxsim leaves them between two Gemms."""
    body = attention().replace("[0, 0, 2, 4]", "[-1, 5, 2, 4]").replace("[0, 0, 8]", "[-1, 8]")
    rows = "float[10, 8] "
    model = graph(body, inputs=", ".join(rows + name for name in "qkv"), outputs=f"{rows}y")
    assert sorted(set(written(model))) == ["Constant", OPERATOR, "Reshape"]


def test_keys_that_are_values_too() -> None:
    body = attention("q", "k", "k").replace("[0, 0, 2, 4]", "[-1, 5, 2, 4]").replace("[0, 0, 8]", "[-1, 8]")
    model = graph(body, inputs="float[10, 8] q, float[10, 8] k", outputs="float[10, 8] y")
    assert written(model).count(OPERATOR) == 1


def test_heads_that_others_read_before_they_are_joined() -> None:
    body = attention() + " z = Neg (ty)"
    model = graph(body, outputs="float[n, 5, 8] y, float[n, 5, 2, 4] z")
    assert "Transpose" not in written(model)

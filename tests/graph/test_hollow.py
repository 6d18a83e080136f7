"""Which weights are held out, which stay, and that everything comes back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, Formula, model, op
from onnx import checker, numpy_helper, parser

from gelu_deploy import runtime
from gelu_deploy.graph import hollow
from gelu_deploy.graph.opening import open_graph

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((32, 32)).astype(np.float32)
SMALL = RANDOM.standard_normal((32, 31)).astype(np.float32)
X = RANDOM.standard_normal((3, 32)).astype(np.float32)
TABLE = RANDOM.standard_normal((64, 32)).astype(np.float32)
FILTER = RANDOM.standard_normal((8, 8, 5, 5)).astype(np.float32)


def graph(formula: Formula, shape: tuple[int | str, ...] = ("n", 32), **kwargs: Any) -> ir.Model:
    return model(lambda x: op("Identity", formula(x)), shape=shape, **kwargs)


def shared(x: Expression, formula: Formula) -> Expression:
    """A formula of one weight, which it may read more than once."""
    return formula(Expression(x.writer.constant(WEIGHT), x.writer))


HELD: dict[str, Formula] = {
    "MatMul": lambda x: op("MatMul", x, WEIGHT),
    "MatMul, on the left": lambda x: op("MatMul", x.writer.op("MatMul", WEIGHT, op("Transpose", x)), X),
    "Gemm": lambda x: op("Gemm", x, WEIGHT, np.zeros(32, np.float32)),
    "shared": lambda x: shared(x, lambda w: op("MatMul", op("MatMul", x, w), w)),
    "table": lambda x: x + x.writer.op("Gather", TABLE, op("Cast", op("ReduceMax", x, keepdims=0) * 0.0, to=7)),
}
STAY: dict[str, Formula] = {
    "small": lambda x: op("MatMul", x, SMALL),
    "Conv": lambda x: op("Flatten", op("Conv", op("Reshape", x, np.array([-1, 8, 2, 2])), FILTER, pads=[2, 2, 2, 2])),
    "Transpose": lambda x: op("MatMul", x, x.writer.op("Transpose", WEIGHT)),
    "Cast": lambda x: op("MatMul", x, x.writer.op("Cast", WEIGHT.astype(np.float64), to=1)),
    "two readers, one that folds": lambda x: shared(x, lambda w: op("MatMul", op("MatMul", x, w), op("Transpose", w))),
    "table and constant index": lambda x: x + x.writer.op("Gather", TABLE, np.array([3])),
    "another domain": lambda x: op("Gelu", op("FusedMatMul", x, WEIGHT, domain="com.microsoft")),
}


def answers(made: ir.Model, **constants: Any) -> Any:
    proto = ir.to_proto(made)
    checker.check_model(proto)
    run = runtime.Evaluation(proto.SerializeToString(), constants, optimise=False)
    return run({"x": X})["y"]


@pytest.mark.parametrize("name", [*HELD, *STAY])
def test_held_run_hollow_and_put_back(name: str) -> None:
    made = graph((HELD | STAY)[name])
    before, wanted = ir.to_proto(made), answers(made)
    held = hollow.hold(made)
    assert bool(held.names) == (name in HELD)
    assert len(made.graph.inputs) == 1 + len(held.names)
    np.testing.assert_array_equal(answers(made, **hollow.arrays(held)), wanted)
    if name in HELD:
        assert len(ir.to_proto(made).SerializeToString()) < hollow.LARGE
    hollow.put_back(made, held)
    after = ir.to_proto(made)
    assert {one.name: one for one in after.graph.initializer} == {one.name: one for one in before.graph.initializer}
    after.graph.ClearField("initializer")
    before.graph.ClearField("initializer")
    assert after == before


def test_a_weight_that_is_an_output_too_stays() -> None:
    made = graph(HELD["MatMul"])
    (weight,) = made.graph.initializers.values()
    made.graph.outputs.append(weight)
    assert hollow.hold(made).names == frozenset()
    assert [value.name for value in made.graph.inputs] == ["x"]


@pytest.mark.parametrize("version", [3, 10])
def test_weights_that_are_inputs_as_well_stay(version: int) -> None:
    made = graph(HELD["MatMul"], home="overridable")
    made.ir_version = version
    names = [value.name for value in made.graph.inputs]
    assert len(names) == 2
    held = hollow.hold(made)
    assert held.names == frozenset()
    hollow.put_back(made, held)
    assert [value.name for value in made.graph.inputs] == names
    assert len(made.graph.initializers) == 1


def test_a_weight_used_inside_a_branch_stays() -> None:
    text = """
      <ir_version: 10, opset_import: ["": 20]> g (bool c, float[N, 32] x) => (float[N, 32] y) {
        y = If (c) <then_branch = t () => (float[A, 32] p) { p = MatMul(x, w) },
                    else_branch = e () => (float[B, 32] q) { q = Identity(x) }>
      }
    """
    proto = parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    made = ir.from_proto(proto)
    assert hollow.hold(made).names == frozenset()


def test_weights_in_files_are_held_where_they_lie_and_what_stays_is_read(tmp_path: Path) -> None:
    made = graph(lambda x: op("MatMul", op("MatMul", x, WEIGHT), x.writer.op("Transpose", WEIGHT * 2)))
    wanted = answers(made)
    ir.save(made, tmp_path / "m.onnx", external_data="m.data", size_threshold_bytes=0)
    opened = open_graph(str(tmp_path / "m.onnx"))
    assert len(opened.held.names) == 1
    assert isinstance(next(iter(opened.held.weights.values())).const_value, ir.ExternalTensor)
    stayed = [value.const_value for value in opened.model.graph.initializers.values()]
    assert len(stayed) == 1
    assert not any(isinstance(tensor, ir.ExternalTensor) for tensor in stayed)
    arrays = hollow.arrays(opened.held)
    np.testing.assert_allclose(answers(opened.model, **arrays), wanted, atol=1e-6)
    hollow.put_back(opened.model, opened.held)
    (back,) = (value for name, value in opened.model.graph.initializers.items() if name in opened.held.names)
    assert back.const_value is not None
    np.testing.assert_array_equal(back.const_value.numpy(), WEIGHT)


def test_what_a_tool_left_unused_stays_away() -> None:
    made = graph(HELD["MatMul"])
    held = hollow.hold(made)
    product = next(node for node in made.graph if node.op_type == "MatMul")
    product.outputs[0].replace_all_uses_with(made.graph.inputs[0])
    made.graph.remove(product, safe=True)
    hollow.put_back(made, held)
    assert [value.name for value in made.graph.inputs] == ["x"]
    assert not made.graph.initializers


def test_the_digest_is_of_the_graph_and_of_the_weights_that_are_out() -> None:
    def digest(weight: np.ndarray, opset: int = 20) -> str:
        made = graph(lambda x: op("MatMul", x, weight), opset=opset)
        held = hollow.hold(made)
        assert len(held.names) == 1
        return hollow.digest(made, held)

    first = digest(WEIGHT)
    assert first == digest(WEIGHT.copy())
    assert len({first, digest(WEIGHT + 1), digest(WEIGHT.T), digest(WEIGHT, opset=18)}) == 4

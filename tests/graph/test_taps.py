"""Inner values as outputs: exact, on a copy, and without breaking what they look at."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, model, op
from onnx import checker

from gelu_deploy import runtime
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.taps import PREFIX, tapped

WEIGHT = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
BIAS = np.linspace(-1, 1, 8, dtype=np.float32)
X = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)


def block(x: Expression) -> Expression:
    hidden = op("Add", op("MatMul", x, WEIGHT), BIAS)
    return op("MatMul", op("Gelu", hidden), WEIGHT)


@pytest.fixture
def graph() -> ir.Model:
    return model(block, shape=("n", 8))


def test_a_tap_shows_the_exact_negative_and_the_model_stays_as_it_was(graph: ir.Model) -> None:
    before = ir.to_proto(graph)
    (site,) = find(graph).sites
    names = [site.source.name or "", site.output.name or ""]
    copy, shown = tapped(graph, [*names, *names])
    assert ir.to_proto(graph) == before
    assert shown == {name: f"{PREFIX}{name}" for name in names}
    checker.check_model(ir.to_proto(copy), full_check=True)
    got = runtime.evaluate(copy, {"x": X}, optimise=False)
    assert list(got) == ["y", *shown.values()]
    hidden = X @ WEIGHT + BIAS
    np.testing.assert_allclose(-got[shown[names[0]]], hidden, atol=1e-5)
    np.testing.assert_array_equal(got["y"], runtime.evaluate(graph, {"x": X}, optimise=False)["y"])


def test_taps_leave_the_runtime_free_to_fuse(graph: ir.Model) -> None:
    (site,) = find(graph).sites
    copy, _ = tapped(graph, [site.source.name or "", site.output.name or ""])
    made = [node.op_type for node in runtime.optimised(copy).graph]
    assert "Gelu" in made or "BiasGelu" in made
    assert "Erf" not in made


def test_inputs_outputs_and_constants_can_be_tapped_and_strangers_are_left_out(graph: ir.Model) -> None:
    constant = next(name for name, value in graph.graph.initializers.items() if len(value.shape or ()) == 1)
    copy, shown = tapped(graph, ["x", "y", constant, "nowhere", ""])
    assert set(shown) == {"x", "y", constant}
    got = runtime.evaluate(copy, {"x": X}, optimise=True)
    np.testing.assert_array_equal(-got[shown["x"]], X)
    np.testing.assert_array_equal(-got[shown["y"]], got["y"])
    np.testing.assert_array_equal(-got[shown[constant]], BIAS)

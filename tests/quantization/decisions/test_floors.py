"""What an activation makes nothing of gets no codes: a GELU below -4, a ReLU below 0, through what hands values on."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import quantize_networks as networks
from onnx import parser

from gelu_deploy import gelu
from gelu_deploy.quantization.calibration import Histogram, Observation, observe, ranges
from gelu_deploy.quantization.decisions import floors
from gelu_deploy.quantization.decisions.floors import FLOORS, floor_of, floored
from gelu_deploy.quantization.decisions.insert import needed, static
from gelu_deploy.quantization.network import Recipe

BEFORE = (
    '<ir_version: 9, opset_import: ["": 20, "com.microsoft": 1]> g (float[n, 4] x) => (float[n, 4] y) { h = Abs(x) '
)


@pytest.mark.parametrize(
    ("body", "floor"),
    [
        ("y = Gelu(h)", -4.0),
        ("y = Relu(h)", 0.0),
        ("s = Constant<value_ints=[0, 4]>() r = Reshape(h, s) y = Gelu(r)", -4.0),
        ("b = Constant<value_floats=[1.0, -2.0, 0.0, 3.0]>() a = Add(b, h) y = Gelu(a)", -7.0),
        ("g = Gelu(h) r = Relu(h) y = Add(g, r)", -4.0),
        ("g = Gelu(h) y = Add(g, h)", None),
        ("y = Tanh(h)", None),
        ("y = com.microsoft.Gelu(h)", None),
    ],
)
def test_the_lowest_number_that_any_reader_tells_apart(body: str, floor: float | None) -> None:
    model = ir.from_proto(parser.parse_model(f"{BEFORE}{body} }}"))
    assert floor_of(model.graph[0].outputs[0]) == floor


def test_an_output_of_the_graph_has_no_floor() -> None:
    model = ir.from_proto(parser.parse_model(f"{BEFORE}y = Gelu(h) }}"))
    model.graph.outputs.append(model.graph[0].outputs[0])
    assert floor_of(model.graph[0].outputs[0]) is None


def test_below_its_floor_a_gelu_makes_nothing() -> None:
    below = np.linspace(-40, FLOORS["Gelu"], 10_000)
    assert max(np.abs(form(below)).max() for form in (gelu.erf_form, gelu.tanh_form)) < 1.3e-4


def test_what_lies_below_is_counted_as_the_floor() -> None:
    values = np.array([-9, -5, -4.5, -1, 0, 2], np.float32)
    seen = Observation.of(values[:, None])
    cut = seen.above(-4.0)
    assert (cut.minimum, cut.maximum, cut.histogram.counts.sum()) == (-4.0, 2.0, 6)
    assert cut.histogram.counts[0] == 3
    assert seen.above(-10.0) is seen
    everything = Histogram.of(values).above(5.0)
    assert everything.counts.tolist() == [6]


def test_a_convolution_before_a_gelu_gains_and_nothing_else_changes() -> None:
    made = networks.conv(channels=16)
    data = [{"x": 6 * feed["x"]} for feed in networks.feeds(made, count=3)]
    seen = observe(made, needed(made.layers), data)
    cut = floors.floored(made, seen)
    assert [name for name in seen if cut[name] != seen[name]] == [made.layers[0].output]
    assert cut[made.layers[0].output].minimum == -4.0
    others = frozenset(layer.node for layer in made.layers[1:])
    plain, better = (
        networks.sqnr(made, static(made, Recipe(ranges(one, "minmax"), weight="u8", kept=others)), data[0])
        for one in (seen, floored(made, seen))
    )
    assert better > plain + 1

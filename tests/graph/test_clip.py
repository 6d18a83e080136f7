"""Clip inside a GELU: how PyTorch's clamp arrives, with both bounds or one."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import parser

from gelu_deploy.gelu.approximations import IGELU_A, IGELU_B
from gelu_deploy.graph.recognize import find

IGELU = """
<ir_version: 8, opset_import: ["" : {opset}]>
m (float[N] x) => (float[N] y)
<float half = {{0.5}}, float root = {{1.41421356}}, float a = {{{a}}}, float b = {{{b}}}, float one = {{1.0}},
 float top = {{{top}}}, float zero = {{0.0}}>
{{
    z = Div(x, root)
    size = Abs(z)
    held = {clip}
    shifted = Add(held, b)
    square = Mul(shifted, shifted)
    bent = Mul(square, a)
    risen = Add(bent, one)
    sign = Sign(z)
    erf = Mul(sign, risen)
    gate = Add(erf, one)
    h = Mul(x, half)
    y = Mul(h, gate)
}}
"""


def forms(opset: int, clip: str, gate: str = "gate = Add(erf, one)") -> list[str]:
    text = IGELU.format(opset=opset, clip=clip, a=IGELU_A, b=IGELU_B, top=-IGELU_B)
    model = parser.parse_model(text.replace("gate = Add(erf, one)", gate))
    return [site.form for site in find(ir.serde.deserialize_model(model)).sites]


@pytest.mark.parametrize("clip", ["Clip(size, zero, top)", "Clip(size, , top)"])
def test_bounds_that_make_the_form(clip: str) -> None:
    assert forms(17, clip) == ["igelu"]


@pytest.mark.parametrize("clip", ["Clip(size, zero)", "Clip(size)", "Clip(size, top, top)"])
def test_bounds_that_do_not(clip: str) -> None:
    assert forms(17, clip) == []


def test_bounds_before_opset_11_are_not_overlooked() -> None:
    held = "Min(size, top)"
    assert forms(10, held) == ["igelu"]
    assert forms(10, held, "rise = Add(erf, one)\n gate = Clip <max: float = 1.5> (rise)") == []

"""One GELU as an ONNX file: x, the operators of a spelling, and the first row of the result.

The row is cut out because the runtime leaves some GELUs unfused whose result is an output, and because handing a large
output over is not the form's work. It knows spellings as data and no runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from gelu_deploy.gelu import ALPHA, Step

OPSET = 20
"""The first that has every spelling."""
RESULT = "gelu"
"""Name of the value that the spelling makes."""
COPIED = (Step("Identity", ("x",)),)
"""The operators of a copy, in the place of a spelling's."""


def alone(steps: Sequence[Step]) -> ir.Model:
    """A model with the input ``x`` [rows, columns] and the output ``y`` [1, columns], both float32."""
    x = ir.val("x", ir.DataType.FLOAT, ("rows", "columns"))
    graph = ir.Graph([x], [], nodes=[], opset_imports={"": OPSET, "com.microsoft": 1}, name="alone")
    values: dict[str | float, ir.Value] = {"x": x}

    def constant(number: Any, dtype: Any = np.float32) -> ir.Value:
        name = f"c{len(graph.initializers)}"
        graph.initializers[name] = ir.val(name, const_value=ir.tensor(np.asarray(number, dtype), name=name))
        return graph.initializers[name]

    for step in steps:
        inputs = [values[i] if i in values else constant(ALPHA if i == "alpha" else i) for i in step.inputs]
        attributes = {key: ALPHA if text == "alpha" else text for key, text in step.attributes.items()}
        node = ir.node(step.op, inputs, attributes, domain=step.domain)
        node.outputs[0].name = RESULT if step is steps[-1] else step.output
        values[step.output] = node.outputs[0]
        graph.append(node)
    row = ir.node("Slice", [values["y"], *(constant(bounds, np.int64) for bounds in ([0], [1], [0]))])
    y = row.outputs[0]
    y.name, y.dtype, y.shape = "y", ir.DataType.FLOAT, ir.Shape([1, "columns"])
    graph.append(row)
    graph.outputs.append(y)
    return ir.Model(graph, ir_version=10)

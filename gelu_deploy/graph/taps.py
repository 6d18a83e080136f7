"""Inner values shown as outputs, on a throw-away copy of a model.

It knows nothing of what the values mean.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

PREFIX = "gelu_deploy.tap."


def tapped(model: ir.Model, names: Iterable[str]) -> tuple[ir.Model, dict[str, str]]:
    """A copy of ``model`` with the named values as outputs, and ``{value: output that shows its negative}``.

    The tap is a Neg, exact in every float type: a plain output would stop the runtime from fusing what ends in it, and
    an Identity may be removed. Names that the top-level graph does not have are left out.
    """
    copy = model.clone()
    known = {value.name: value for value in (*copy.graph.inputs, *copy.graph.initializers.values())}
    known |= {value.name: value for node in copy.graph for value in node.outputs}
    shown = dict[str, str]()
    for name in dict.fromkeys(names):
        value = known.get(name)
        if value is None:
            continue
        shown[name] = f"{PREFIX}{name}"
        tap = ir.val(shown[name], type=value.type, shape=value.shape)
        copy.graph.append(ir.node("Neg", [value], outputs=[tap], name=shown[name]))
        copy.graph.outputs.append(tap)
    return copy, shown

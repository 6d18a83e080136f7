"""Names: every operator gets one that no other has.

It knows nothing of what operators do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import onnx_ir as ir

from gelu_deploy.graph.passes import Result


@dataclass(frozen=True)
class Names:
    """Operators without a name, or with one that several have, are called as what they make, in place."""

    def apply(self, model: ir.Model) -> Result:
        """Names that are unique already stay; subgraphs are named too."""
        nodes = list(model.graph.all_nodes())
        counts = Counter(node.name for node in nodes)
        unnamed = [node for node in nodes if not node.name or counts[node.name] > 1]
        taken = set(counts)
        for node in unnamed:
            made = next((value.name for value in node.outputs if value.name), node.op_type)
            name, copy = made, 1
            while name in taken:
                copy += 1
                name = f"{made}.{copy}"
            node.name = name
            taken.add(name)
        notes = (f"operators without a name of their own got one ({len(unnamed)})",) if unnamed else ()
        return Result(model, modified=bool(unnamed), notes=notes)

"""What a pass over a graph is: a frozen dataclass with one method, checked against what it claims.

It knows nothing of what any pass does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir


@dataclass(frozen=True)
class Result:
    """What a pass did.

    Attributes:
        model: The model to go on with; the same object when the pass works in place.
        modified: Whether anything in it changed.
        notes: What a person should know about it, one line each.
    """

    model: ir.Model
    modified: bool
    notes: tuple[str, ...] = ()


class Pass(Protocol):
    """One step over a model."""

    def apply(self, model: ir.Model) -> Result:
        """Do it; says in its docstring whether the model is changed in place."""
        ...

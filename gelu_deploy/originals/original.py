"""What the rest of the package knows of the model before export: something with inputs that can be run.

It knows neither torch nor a runtime; the loaders in ``gelu_deploy.exporters`` and ``runtime`` provide the real things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gelu_deploy.arrays import Array, Arrays

if TYPE_CHECKING:
    import onnx_ir as ir


class Original(Protocol):
    """A network before export, ready to be run (a module in eval mode, or an ONNX file in the runtime).

    Attributes:
        notes: One line per fact worth printing and recording (what the file is, what was trusted, left out, chosen).
        examples: One array per input, in forward's order; bfloat16 as ``ml_dtypes.bfloat16``.
        output_names: Names of the flattened outputs, in order; known after the first run.
        axes: Free axes that the file itself fixes, ``{input: {axis: name}}``; None where they may be chosen.
    """

    @property
    def notes(self) -> list[str]: ...  # noqa: D102

    @property
    def examples(self) -> Arrays: ...  # noqa: D102

    @property
    def output_names(self) -> list[str]: ...  # noqa: D102

    @property
    def axes(self) -> dict[str, dict[int, str]] | None: ...  # noqa: D102

    def run(self, feeds: Mapping[str, Array]) -> Arrays:
        """The outputs for these inputs, by name. Raises ModelError when the network itself refuses them."""
        ...


@dataclass(frozen=True)
class ExportRequest:
    """What an exporter is asked for.

    Attributes:
        opset: Operator set to write; the exporter may return another and the caller converts.
        dynamic: Free axes, ``{input: {axis: name}}``.
        input_names: Names of the graph's inputs, one per example.
        output_names: Names of the graph's outputs, in order.
    """

    opset: int
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


NOTES = "gelu_deploy.notes"
"""Where a graph's ``meta`` has what its exporter wants to be printed: a list of lines."""


class Exporter(Protocol):
    """A way in which a module becomes a graph; ``--exporter FILE.py:NAME`` names one of your own.

    It keeps GELU one node where the opset allows; spelling it out is not its job. ``NOTES`` is how it says something.
    """

    def __call__(self, module: Any, inputs: tuple[Any, ...], request: ExportRequest, /) -> ir.Model:
        """The graph of ``module(*inputs)``, whose outputs are a flat tuple of tensors."""
        ...

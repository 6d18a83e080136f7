"""What the inputs and outputs of the graph are called, and the cases under those names.

It knows what the user asked for and what the original calls them, and nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gelu_deploy.artifact.golden import Case
from gelu_deploy.errors import UsageError
from gelu_deploy.originals.onnx_file import OnnxOriginal
from gelu_deploy.originals.original import Original


class Names(NamedTuple):
    """Of the inputs and of the outputs, in order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def named(original: Original, inputs: Sequence[str], outputs: Sequence[str]) -> Names:
    """The user's names, else the original's, all different: its output may be called like an input.

    Raises UsageError where their number is wrong, or one would name two.
    """
    taken_in = _names(inputs, list(original.examples), "--input-names")
    taken = () if isinstance(original, OnnxOriginal) else taken_in
    own = [f"{name}_out" if name in taken else name for name in original.output_names]
    taken_out = _names(outputs, own, "--output-names")
    every = [*taken_in, *taken_out]
    wrong = [name for name in every if not name or every.count(name) > 1]
    if wrong and (inputs or outputs):
        what = f"{wrong[0]!r} would name two of them" if wrong[0] else "a name is empty"
        raise UsageError(f"--input-names, --output-names: {what}; the inputs and outputs are {', '.join(every)}")
    return Names(taken_in, taken_out)


def renamed(cases: Sequence[Case], original: Original, names: Names) -> list[Case]:
    """The cases of the original under these names."""
    return [
        replace(
            case,
            inputs=dict(zip(names.inputs, case.inputs.values(), strict=True)),
            outputs=dict(zip(names.outputs, (case.outputs[name] for name in original.output_names), strict=True)),
        )
        for case in cases
    ]


def _names(given: Sequence[str], own: Sequence[str], flag: str) -> tuple[str, ...]:
    if given and len(given) != len(own):
        raise UsageError(f"{flag}: got {len(given)} names for {len(own)}: {', '.join(own)}")
    return tuple(given or own)

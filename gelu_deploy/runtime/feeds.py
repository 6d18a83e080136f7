"""What goes into a session and comes out: names, types and shapes, checked before the runtime sees an array.

It knows NumPy and the runtime's names for types, and nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gelu_deploy.errors import ModelError, UsageError

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays

BITS = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20}
"""Types that the runtime knows and NumPy only through ``ml_dtypes``, with ONNX's number for each."""

_NUMPY = {"float": "float32", "double": "float64", "string": "str"} | {name.replace("_", ""): name for name in BITS}
"""NumPy's names for the runtime's types, where they differ."""


@dataclass(frozen=True)
class Spec:
    """One input or output.

    Attributes:
        shape: A size, or the name of a free axis (``"?"`` where it has none).
        dtype: NumPy's name of the type, ``"bfloat16"`` and the like included, ``"str"`` for strings.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    def __str__(self) -> str:
        """``batch x 3 x 224 x 224:float32``."""
        return f"{_joined(self.shape)}:{self.dtype}"


def specs(arguments: Iterable[Any]) -> dict[str, Spec]:
    """The inputs or outputs of a session by name, in order. Raises ModelError for what is no tensor."""
    return {argument.name: _spec(argument) for argument in arguments}


def checked(feeds: Mapping[str, Any], inputs: Mapping[str, Spec]) -> Arrays:
    """The arrays as the runtime can read them: native byte order, contiguous; no value is changed.

    Raises:
        UsageError: An input is missing or unknown, or is not of the type and shape expected.
    """
    missing, unknown = [name for name in inputs if name not in feeds], [name for name in feeds if name not in inputs]
    if missing or unknown:
        problem = f"Input {missing[0]!r} is missing" if missing else f"There is no input {unknown[0]!r}"
        came = ", ".join(map(repr, feeds)) or "none"
        raise UsageError(f"{problem}: {came} came, the model's inputs are {', '.join(map(repr, inputs))}.")
    return {name: _fitted(feeds[name], spec) for name, spec in inputs.items()}


def _spec(argument: Any) -> Spec:
    kind: str = argument.type
    if not kind.startswith("tensor("):
        raise ModelError(f"{argument.name!r} is a {kind}; only models whose inputs and outputs are tensors can be run.")
    name = kind.removeprefix("tensor(").removesuffix(")")
    shape = tuple(size if isinstance(size, (int, str)) and size != "" else "?" for size in argument.shape)
    return Spec(argument.name, shape, _NUMPY.get(name, name))


def _fitted(value: Any, spec: Spec) -> Array:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"Input {spec.name!r} is a {type(value).__name__} that is no array: {str(error).rstrip('.')}."
        ) from None
    native = array.dtype.newbyteorder("=")
    came = "str" if native.kind in "UO" and spec.dtype == "str" else native.name
    if came != spec.dtype:
        raise UsageError(
            f"Input {spec.name!r} came as {came}, expected {spec.dtype}. Nothing is converted silently: "
            f"pass array.astype({spec.dtype!r})."
        )
    if not _agrees(array.shape, spec.shape):
        raise UsageError(
            f"Input {spec.name!r} came with shape {_joined(array.shape)}, expected {_joined(spec.shape)}"
            f"{_difference(array.shape, spec.shape)}."
        )
    return np.require(array, dtype=native, requirements=["C_CONTIGUOUS", "ALIGNED"])


def _agrees(shape: tuple[int, ...], expected: tuple[int | str, ...]) -> bool:
    pairs = zip(shape, expected, strict=False)
    return len(shape) == len(expected) and all(isinstance(want, str) or want == size for size, want in pairs)


def _difference(shape: tuple[int, ...], expected: tuple[int | str, ...]) -> str:
    if len(shape) != len(expected):
        return f": {len(expected)} {'axis' if len(expected) == 1 else 'axes'}, not {len(shape)}"
    pairs = enumerate(zip(shape, expected, strict=True))
    axis, size, want = next(
        (axis, *pair) for axis, pair in pairs if not isinstance(pair[1], str) and pair[0] != pair[1]
    )
    return f": axis {axis} must be {want}, not {size}"


def _joined(shape: Iterable[int | str]) -> str:
    return " x ".join(str(size) for size in shape) or "a scalar"

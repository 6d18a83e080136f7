"""An ONNX file as the original: compared with itself in the runtime, at sizes and values found by trying.

It knows no torch. What it chose for free axes and integer inputs is in its notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from gelu_deploy import runtime
from gelu_deploy.arrays import Array, Arrays, describe
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.graph import hollow
from gelu_deploy.graph.mend import mend
from gelu_deploy.graph.opening import read
from gelu_deploy.originals.cases import BATCH
from gelu_deploy.originals.inputs import Wanted

SIZES = (16, 32, 8, 64, 128, 224, 320, 640, 1, 2, 3, 48, 80, 96)
"""Sizes of a free axis, in the order in which they are tried."""

BATCH_SIZE = 2
THROUGH = {"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Expand"}
SEED = 0


class OnnxOriginal:
    """An ONNX file, run by the runtime with all optimisation off.

    Attributes:
        notes: What was mended, and what was chosen for free axes.
        examples: Inputs at which the file runs.
        output_names: The graph's outputs.
        axes: Its free axes, ``{input: {axis: name}}``; the first axis of the first input that has it free is ``batch``.
    """

    def __init__(self, path: str, given: Mapping[str, Array], wanted: Mapping[str, Wanted]) -> None:
        self.model = read(path)
        self.notes = mend(self.model)
        held = hollow.hold(self.model)
        self._run = runtime.Evaluation(self.model, hollow.arrays(held), optimise=False)
        self._bounds = {value.name or "": _bound(value) for value in self.model.graph.inputs}
        hollow.put_back(self.model, held)
        values = [value for value in self.model.graph.inputs if not value.is_initializer()]
        self.axes = _free(values)
        self.output_names = [value.name or "" for value in self.model.graph.outputs]
        self.examples = self._examples(values, given, wanted)

    def run(self, feeds: Mapping[str, Array]) -> Arrays:
        """The file's own outputs. Raises ModelError when it refuses these inputs."""
        return self._run(feeds)

    def random(self, seed: int) -> Arrays:
        """Other random inputs of the same types and shapes."""
        return {
            name: _values(array.shape, array.dtype, self._bounds[name], seed) for name, array in self.examples.items()
        }

    def _examples(self, values: list[ir.Value], given: Mapping[str, Array], wanted: Mapping[str, Wanted]) -> Arrays:
        given = self._inputs_of(given, values, wanted)
        reason = "none tried"
        for sizes in self._sizes(given, wanted):
            examples = {v.name or "": self._array(v, given, wanted, sizes) for v in values}
            try:
                self.run(examples)
            except ModelError as error:
                reason = str(error)
                continue
            chosen = ", ".join(f"{name} {describe(array)}" for name, array in examples.items())
            self.notes.append(
                f"inputs: {chosen}" + ("" if given or wanted else " (found by trying; seeded random values)")
            )
            return examples
        raise ModelError(
            f"the model ran at none of the sizes tried for its free axes ({', '.join(map(str, SIZES))}): {reason} "
            f"Say one that fits with --input NAME:SHAPE:DTYPE, or give real arrays with --data"
        )

    def _inputs_of(
        self, given: Mapping[str, Array], values: list[ir.Value], wanted: Mapping[str, Wanted]
    ) -> dict[str, Array]:
        """Of the arrays given, those that are inputs, of each the first two rows where their number is free."""
        types = {value.name or "": (value.dtype or ir.DataType.FLOAT).numpy().name for value in values}
        unknown = [name for name in wanted if name not in types]
        if unknown or (given and not wanted and not set(given) & set(types)):
            names = ", ".join(unknown or sorted(given))
            raise UsageError(f"there is no input {names}; the inputs are {', '.join(types)}")
        wrong = next((name for name, want in wanted.items() if want.dtype != types[name]), None)
        if wrong is not None:
            shape = "x".join(map(str, wanted[wrong].shape)) or "scalar"
            raise UsageError(
                f"--input {wrong}: {wanted[wrong].dtype} was asked for and the file takes {types[wrong]}; "
                f"say {wrong}:{shape}:{types[wrong]}"
            )
        ignored = sorted(set(given) - set(types))
        if ignored:
            self.notes.append(f"not inputs, ignored in --data: {', '.join(ignored)}")
        rows = {name: BATCH_SIZE if self.axes[name].get(0) == BATCH else None for name in types}
        return {name: array[: rows[name]] if array.ndim else array for name, array in given.items() if name in types}

    def _sizes(self, given: Mapping[str, Array], wanted: Mapping[str, Wanted]) -> Iterator[dict[str, int]]:
        """Sizes by name of the axis; those that an array or ``--input`` has are not for choosing."""
        shapes = {name: want.shape for name, want in wanted.items()} | {name: a.shape for name, a in given.items()}
        said = {
            label: shape[axis]
            for name, shape in shapes.items()
            for axis, label in self.axes[name].items()
            if axis < len(shape)
        }
        names = sorted({name for axes in self.axes.values() for name in axes.values()})
        others = [name for name in names if name != BATCH and name not in said]
        start = ({BATCH: BATCH_SIZE} if BATCH in names else {}) | said
        if not others:
            yield start
            return
        for size in SIZES:
            yield start | dict.fromkeys(others, size)

    def _array(
        self, value: ir.Value, given: Mapping[str, Array], wanted: Mapping[str, Wanted], sizes: Mapping[str, int]
    ) -> Array:
        name = value.name or ""
        if name in given:
            return given[name]
        free = self.axes.get(name, {})
        dims = () if value.shape is None else value.shape.dims
        shape = tuple(size if isinstance(size, int) else sizes[free[axis]] for axis, size in enumerate(dims))
        shape = wanted[name].shape if name in wanted else shape
        return _values(shape, (value.dtype or ir.DataType.FLOAT).numpy(), self._bounds[name], SEED)


def _free(values: list[ir.Value]) -> dict[str, dict[int, str]]:
    """Free axes by the file's own names, but the batch by ours."""
    axes = dict[str, dict[int, str]]()
    for value in values:
        dims = () if value.shape is None else value.shape.dims
        axes[value.name or ""] = {
            axis: str(size.value or f"{value.name}_{axis}")
            for axis, size in enumerate(dims)
            if isinstance(size, ir.SymbolicDim)
        }
    batch = next((free[0] for free in axes.values() if 0 in free), None)
    return {name: {a: BATCH if label == batch else label for a, label in free.items()} for name, free in axes.items()}


def _values(shape: tuple[int, ...], kind: np.dtype[Any], bound: int, seed: int) -> Array:
    random = np.random.default_rng(seed)
    if kind == np.bool_:
        return random.random(shape) < 0.5
    if np.issubdtype(kind, np.integer):
        return random.integers(0, bound, shape).astype(kind)
    return random.standard_normal(shape).astype(kind)


def _bound(value: ir.Value) -> int:
    """One more than the largest index that an integer input may hold: the size of the table it looks up, else 2."""
    queue, sizes = [value], list[int]()
    for reached in queue:
        for node, place in reached.uses():
            if node.op_type in THROUGH and place == 0 and len(queue) < 64:
                queue.append(node.outputs[0])
            elif node.op_type == "Gather" and place == 1:
                sizes += _size(node.inputs[0], node.attributes.get_int("axis", 0))
            elif node.op_type == "Equal":  # a one-hot code: compared with every index
                sizes += _size(node.inputs[1 - place], -1)
    return max(1, min(sizes, default=2))


def _size(table: ir.Value | None, axis: int) -> list[int]:
    """The table's size along ``axis``, or nothing if it is not known."""
    tensor = None if table is None else ir.convenience.get_const_tensor(table)
    shape = tensor.shape if tensor is not None else table.shape if table is not None else None
    size = shape[axis] if shape is not None and len(shape) else None
    return [size] if isinstance(size, int) else []

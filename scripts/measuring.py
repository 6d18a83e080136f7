"""What the scripts that measure share: ONNX Runtime's own quantization, and what a file answers.

It knows nothing of what is measured with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gelu_deploy
from gelu_deploy.quantization.decisions.quiet import quiet

Array = NDArray[Any]
Feeds = dict[str, Array]


def static(path: Path, batches: Sequence[Feeds], out: Path, **options: object) -> Path:
    """ONNX Runtime's static quantization as it comes, or with options of ``quantize_static``; returns ``out``."""
    with quiet():
        from onnxruntime.quantization import CalibrationDataReader, quantize_static

        class Reader(CalibrationDataReader):  # type: ignore[misc]  # it ships no types
            def __init__(self) -> None:
                self._batches: Iterator[Feeds] = iter(batches)

            def get_next(self) -> Feeds | None:
                return next(self._batches, None)

        quantize_static(str(path), str(out), Reader(), **options)
    return out


def dynamic(path: Path, out: Path) -> Path:
    """ONNX Runtime's dynamic quantization, weights per channel; returns ``out``."""
    with quiet():
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(str(path), str(out), per_channel=True)
    return out


def answers(path: Path, batches: Sequence[Mapping[str, Array]]) -> Array:
    """The first output of every batch, one after the other: [rows, ...]."""
    with gelu_deploy.Session(path) as session:
        found = [next(iter(session(feeds).values())) for feeds in batches]
    alike = len({array.shape[1:] for array in found}) == 1
    return np.concatenate(found) if alike else np.concatenate([array.reshape(-1, array.shape[-1]) for array in found])


def cut(array: Array, rows: int) -> list[Array]:
    """In parts of that many rows; the last may have fewer."""
    return [array[start : start + rows] for start in range(0, len(array), rows)]

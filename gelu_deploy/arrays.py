"""Arrays by name, and how one is spoken of. It knows numpy and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = dict[str, Array]


def describe(array: Array) -> str:
    """Shape and type in one word, ``2x3x224x224:float32``, as ``--input`` takes it."""
    shape = "x".join(str(size) for size in array.shape) or "scalar"
    return f"{shape}:{np.dtype(array.dtype).name}"

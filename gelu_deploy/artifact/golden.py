"""Golden data on disk: what went into the original and what came out, in one ``.npz`` that any NumPy opens.

An array lies under ``<case>/in/<name>``, ``<case>/out/<name>`` or ``<case>/form/<name>``. Types that NumPy's format has
no name for, bfloat16 and the float8 family, are kept as their bits: ``0/in:bfloat16/x`` is an array of uint16. The same
arrays give the same bytes. The module knows neither models nor runtimes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays


@dataclass(frozen=True)
class Case:
    """One run of the original: arrays in and arrays out, by name.

    Attributes:
        inputs: What went in.
        outputs: What the original answered.
        form: What the model answers once its GELUs have been given the form that was asked for; empty without such a
            change.
    """

    inputs: Arrays
    outputs: Arrays
    form: Arrays = field(default_factory=dict)

    @property
    def expected(self) -> Arrays:
        """What a model made from the original must answer."""
        return self.form or self.outputs


def write(path: Path, cases: Sequence[Case]) -> None:
    """Write the cases. Raises OSError."""
    arrays: dict[str, Array] = {}
    for number, case in enumerate(cases):
        for kind, group in (("in", case.inputs), ("out", case.outputs), ("form", case.form)):
            for name, array in group.items():
                tag, storable = _storable(array)
                arrays[f"{number}/{kind}{tag}/{name}"] = storable
    write_npz(path, arrays)


def read(path: Path) -> list[Case]:
    """The cases that :func:`write` wrote. Raises OSError, ValueError."""
    found: dict[str, Case] = {}
    with np.load(path, allow_pickle=False) as archive:
        for key in archive.files:
            number, kind, name = key.split("/", 2)
            side, _, dtype = kind.partition(":")
            case = found.setdefault(number, Case({}, {}))
            array = archive[key]
            groups = {"in": case.inputs, "out": case.outputs, "form": case.form}
            groups[side][name] = array.view(_named(dtype)) if dtype else array
    return list(found.values())


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays under any names, as ``np.savez`` would (which has no room for an array called ``file``)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _storable(array: Array) -> tuple[str, Array]:
    """A tag that names the type, where NumPy's format cannot, and the array in a type that it can write."""
    array = np.asarray(array, order="C")
    if array.dtype.kind == "O":
        return "", array.astype(np.str_)
    if array.dtype.isbuiltin == 2:
        return f":{array.dtype.name}", array.view(f"u{array.dtype.itemsize}")
    return "", array.astype(array.dtype.newbyteorder("<"), copy=False)


def _named(dtype: str) -> np.dtype[Any]:
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
    return found

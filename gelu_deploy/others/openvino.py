"""OpenVINO on the CPU, in float32: some CPUs take bfloat16 when they may. It knows nothing of GELU.

Importing it reports that to its makers, unless the package that does so cannot be imported; here it cannot.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays


class OpenVino:
    """One compiled model; see :class:`gelu_deploy.others.Model`."""

    def __init__(self, file: Path, outputs: Sequence[str]) -> None:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # how an import is forbidden
        openvino = importlib.import_module("openvino")
        self.version = str(openvino.__version__).partition("-")[0]
        core = openvino.Core()
        with _plainly():
            self._compiled = core.compile_model(core.read_model(file), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self._outputs = list(outputs)

    def __call__(self, feeds: Mapping[str, Array]) -> Arrays:
        """Run once."""
        with _plainly():
            found = self._compiled(dict(feeds))
        return {name: found[place] for place, name in enumerate(self._outputs)}


@contextmanager
def _plainly() -> Generator[None]:
    """Of its errors the line that says what is wrong: the first of a summary, or else the last."""
    try:
        yield
    except RuntimeError as error:
        before, summary, after = str(error).rpartition("Summary:")
        lines = [line.strip("- ") for line in (after or before).splitlines() if line.strip("- ")]
        raise RuntimeError(lines[0 if summary else -1] if lines else "it does not say why") from error


def open_model(file: Path, outputs: Sequence[str]) -> OpenVino:
    """See :class:`gelu_deploy.others.Opener`."""
    return OpenVino(file, outputs)

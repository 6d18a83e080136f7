"""OpenCV's DNN module on the CPU. It knows nothing of GELU."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays


class OpenCv:
    """One network; see :class:`gelu_deploy.others.Model`."""

    def __init__(self, file: Path, outputs: Sequence[str]) -> None:
        cv2 = importlib.import_module("cv2")
        self.version = str(cv2.__version__)
        try:
            self._net = cv2.dnn.readNetFromONNX(str(file))
        except cv2.error as error:
            raise RuntimeError(error.err) from None  # its message begins with places in its source
        self._outputs = list(outputs)

    def __call__(self, feeds: Mapping[str, Array]) -> Arrays:
        """Run once."""
        for name, array in feeds.items():
            self._net.setInput(array, name)
        return dict(zip(self._outputs, map(np.asarray, self._net.forward(self._outputs)), strict=True))


def open_model(file: Path, outputs: Sequence[str]) -> OpenCv:
    """See :class:`gelu_deploy.others.Opener`."""
    return OpenCv(file, outputs)

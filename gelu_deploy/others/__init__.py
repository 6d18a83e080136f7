"""Other runtimes: what `check --runtime` can run a model in, how each is opened, and what installs it.

One file per runtime beside this one. It knows arrays and files, and nothing of GELU; none of the runtimes is imported
here, nor into this process at all: see :mod:`gelu_deploy.others.child`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gelu_deploy.arrays import Array, Arrays


class Model(Protocol):
    """A model in another runtime.

    Attributes:
        version: The runtime's own, ``"2026.4.1"``.
    """

    version: str

    def __call__(self, feeds: Mapping[str, Array]) -> Arrays:
        """Run once, on one array per input; the outputs by name. Raises whatever the runtime does."""
        ...


class Opener(Protocol):
    """What every file of this room has under the name ``open_model``."""

    def __call__(self, file: Path, outputs: Sequence[str]) -> Model:
        """Open an ONNX file that has all its weights inside and these outputs. Raises whatever the runtime does."""
        ...


@dataclass(frozen=True)
class Runtime:
    """One other runtime.

    Attributes:
        opener: ``MODULE:NAME`` of its :class:`Opener`.
        install: The command after which it is there.
    """

    opener: str
    install: str


RUNTIMES: Mapping[str, Runtime] = {
    "openvino": Runtime("gelu_deploy.others.openvino:open_model", "pip install 'gelu-deploy[openvino]'"),
    "opencv": Runtime("gelu_deploy.others.opencv:open_model", "pip install 'gelu-deploy[opencv]'"),
    "tract": Runtime("gelu_deploy.others.tract:open_model", "pip install 'gelu-deploy[tract]'"),
    "mnn": Runtime("gelu_deploy.others.mnn:open_model", "pip install 'gelu-deploy[mnn]'"),
    "ort-web": Runtime("gelu_deploy.others.ort_web:open_model", "npm install onnxruntime-web"),
}

"""What times are said to be of."""

from __future__ import annotations

from importlib.metadata import version

from gelu_deploy.runtime.providers import available_threads
from gelu_deploy.timing import machine


def test_processor_threads_and_versions() -> None:
    here = machine.here()
    assert here["cpu"]
    assert here["threads"] == str(available_threads())
    assert here["onnxruntime"] == version("onnxruntime")

"""What every test may use."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the golden texts anew instead of comparing")


def pytest_runtest_teardown() -> None:
    """torch makes its table of translations anew at every export, in 0.7 s; once it is imported, one is made."""
    module = sys.modules.get("torch.onnx._internal.exporter._registration")
    if module is not None and not hasattr(module.ONNXRegistry.from_torchlib, "cache_info"):
        module.ONNXRegistry.from_torchlib = staticmethod(functools.cache(module.ONNXRegistry.from_torchlib))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with the file of that name in tests/golden; ``scripts/test --regenerate`` writes it."""
    regenerate = bool(request.config.getoption("--regenerate"))

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if regenerate:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden text {path.name}; write it with --regenerate and read it"
        assert text == path.read_text(encoding="utf-8")

    return compare

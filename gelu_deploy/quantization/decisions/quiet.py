"""ONNX Runtime's quantization tools without what they say on the way: they log to the root logger, and one sets it up.

It knows nothing of what the tools do.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

NAMED = "onnxruntime.quantization.matmul_nbits_quantizer"
"""The one tool with a logger of its own, on which it tells every node."""


@contextmanager
def quiet() -> Generator[None]:
    """Import and run the tools in here. Nobody else's messages are lost, and no handler or level is left behind."""
    root, named, silence = logging.getLogger(), logging.getLogger(NAMED), logging.NullHandler()
    root.addHandler(silence)  # with a handler there, logging.basicConfig and logging.warning set up none
    for logger in (root, named):
        logger.addFilter(_from_elsewhere)
    try:
        yield
    finally:
        for logger in (root, named):
            logger.removeFilter(_from_elsewhere)
        root.removeHandler(silence)


def _from_elsewhere(record: logging.LogRecord) -> bool:
    return "onnxruntime" not in record.pathname

"""An opener whose module holds much: that is no memory of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

HELD = np.ones(150_000_000, np.uint8)


def small() -> Callable[[Any], Any]:
    """Needs hardly anything itself."""
    return lambda feeds: feeds

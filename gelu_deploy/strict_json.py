"""Results as JSON that every reader takes: null for every NaN and infinity, which JSON has no word for.

It knows nothing of what the results say.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def as_json(result: Mapping[str, Any]) -> str:
    """A result as ``--json`` writes it: indented, its keys in their own order, a line break at the end."""
    return json.dumps(finite(result), indent=2, allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """The same dictionaries and lists, with None for every float that is NaN or infinite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value

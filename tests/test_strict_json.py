"""Results as JSON that every reader takes."""

from __future__ import annotations

import json
import math

from gelu_deploy.strict_json import as_json, finite


def test_what_json_has_no_word_for_is_null_at_any_depth() -> None:
    value = {"a": math.nan, "b": [math.inf, 1.5, ({"c": -math.inf},)], "d": None, "e": True, "f": "NaN", "g": 3}
    plain = {"a": None, "b": [None, 1.5, [{"c": None}]], "d": None, "e": True, "f": "NaN", "g": 3}
    assert finite(value) == plain
    assert json.loads(as_json(value), parse_constant=lambda name: name) == plain


def test_keys_keep_their_order_and_the_text_ends_with_a_line() -> None:
    assert as_json({"b": 1, "a": 2}) == '{\n  "b": 1,\n  "a": 2\n}\n'

"""Keywords of a Python call into a verb's options: the same names, checks and messages as on the command line.

It knows dataclasses and their annotations, not what any option means.
"""

from __future__ import annotations

import difflib
import os
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from gelu_deploy.errors import UsageError

Options = TypeVar("Options")
Value = TypeVar("Value")


def build(kind: type[Options], keywords: Mapping[str, object]) -> Options:
    """The options dataclass with these fields set.

    A path may be a ``Path``, a field that may be repeated takes one string or any list of strings.

    Raises:
        UsageError: A name that is no field, a field that is missing, a value of the wrong type or not a choice.
    """
    known = {field.name: field for field in fields(cast("Any", kind))}
    for name in keywords:
        if name not in known:
            raise UsageError(f"There is no option {name!r}. {_suggestion(name, list(known))}")
    missing = [name for name, field in known.items() if field.default is MISSING and name not in keywords]
    if missing:
        raise UsageError(f"Options that must be given are missing: {', '.join(missing)}.")
    hints = get_type_hints(kind)
    return kind(**{name: _fitted(name, value, hints[name]) for name, value in keywords.items()})


def once(flag: str, pairs: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """What a flag that may be repeated says of each name. Raises UsageError when it says two things of one."""
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{flag}: {f'{name!r} is' if name else 'it is'} given twice; leave one of them out")
        found[name] = value
    return found


def source(model: object) -> object:
    """A path as a string, anything else as it is."""
    return os.fspath(model) if isinstance(model, os.PathLike) else model


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"The options are: {', '.join(known)}."


def _fitted(name: str, value: object, hint: Any) -> object:
    """``value`` as the command line would have given it."""
    value = source(value)
    for one in _alternatives(hint):
        if get_origin(one) is Literal and value in get_args(one):
            return value
        if get_origin(one) is tuple and isinstance(value, (str, list, tuple)):
            return _strings(name, value)
        if isinstance(one, type) and _is_a(value, one):
            return value
    raise UsageError(f"Option {name!r} got {value!r}; expected {_expected(hint)}.")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)


def _is_a(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _strings(name: str, value: str | list[Any] | tuple[Any, ...]) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str) else tuple(value)
    wrong = [item for item in items if not isinstance(item, str)]
    if wrong:
        raise UsageError(f"Option {name!r} got {wrong[0]!r} in its list; expected strings.")
    return items


def _expected(hint: Any) -> str:
    words: list[str] = []
    for one in _alternatives(hint):
        if get_origin(one) is Literal:
            words += [repr(choice) for choice in get_args(one)]
        elif get_origin(one) is tuple:
            words.append("a list of strings")
        else:
            words.append("None" if one is type(None) else one.__name__)
    return " or ".join(words)

"""The skeleton of a pickle: what it holds and which names it would import, found without running any of it.

A small stack machine follows the instructions (as :mod:`pickletools` reads them) and builds only dicts, lists, tuples
and plain values; whatever would be imported, called or built is a :class:`Thing`. It knows nothing of files or of what
is allowed.
"""

from __future__ import annotations

import pickletools
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, cast

MAX_BYTES = 256 << 20
MAX_STEPS = 1_000_000
MAX_DEPTH = 500

_TENSOR = ("torch._utils._rebuild_", "torch._tensor._rebuild_from_type", "torch.nn.parameter.", "torch.Tensor")
_OWN = ("torch.", "collections.", "builtins.", "_codecs.")
_DICTS = {"collections.OrderedDict", "collections.defaultdict", "builtins.dict"}
_DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError, struct.error)


class SkeletonError(Exception):
    """The pickle is damaged, too large or too deep; the message completes ``FILE: its pickle …``."""


@dataclass(eq=False)
class Thing:
    """What a pickle would import or make: a global, or (``parts``) what was called with what, then given ``state``."""

    full: str
    parts: list[Any] = field(default_factory=list[Any])
    state: Any = None

    @property
    def is_tensor(self) -> bool:
        """Whether this is a tensor or a parameter."""
        return bool(self.parts) and self.full.startswith(_TENSOR)

    @property
    def is_module(self) -> bool:
        """Whether the state is that of a ``torch.nn.Module``."""
        return isinstance(self.state, dict) and "_modules" in self.state and "_parameters" in self.state

    @property
    def is_foreign(self) -> bool:
        """Whether this is neither of torch nor of plain Python."""
        return bool(self.full) and not self.full.startswith(_OWN)

    @property
    def class_name(self) -> str:
        """Full name of the class; protocol 0 names it in an argument."""
        given = self.parts[1] if self.full.startswith("copyreg.") else ()
        return next((thing.full for thing in given if isinstance(thing, Thing)), self.full)


@dataclass(frozen=True)
class Skeleton:
    """What a pickle would make, and the full names of its globals in the order in which they are first used."""

    root: Any
    globals: tuple[str, ...]

    def walk(self) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Every object once, with the dict keys that lead to it (``?`` for any other step); not into tensors.

        Raises:
            SkeletonError: Containers are nested deeper than MAX_DEPTH.
        """
        todo: list[tuple[tuple[str, ...], Any]] = [((), self.root)]
        seen: set[int] = set()
        while todo:
            path, value = todo.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if len(path) > MAX_DEPTH:
                raise SkeletonError(f"is nested more than {MAX_DEPTH} levels deep, which no network is")
            yield path, value
            todo += [((*path, key), inner) for key, inner in reversed(_inside(value))]


def read(stream: IO[bytes]) -> Skeleton:
    """The skeleton of the pickle at the stream's position, which afterwards is just behind it.

    Raises:
        SkeletonError: The bytes are no pickle, a damaged one, or one beyond MAX_BYTES or MAX_STEPS.
    """
    machine, limited = _Machine(), _Limited(stream)
    try:
        for steps, (opcode, arg, _) in enumerate(pickletools.genops(cast("IO[bytes]", limited))):
            if steps > MAX_STEPS:
                raise SkeletonError(f"has more than {MAX_STEPS} instructions")
            machine.step(opcode.name, arg)
        return Skeleton(machine.stack.pop(), tuple(machine.names))
    except _DAMAGE as error:
        if limited.ended:
            raise SkeletonError("ends too early: the file is cut off") from None
        raise SkeletonError(f"is damaged ({type(error).__name__}: {' '.join(str(error).split())[:80]})") from None


def _inside(value: Any) -> list[tuple[str, Any]]:
    return [(key, inner) for key, inner in _items(value) if isinstance(inner, (dict, list, tuple, Thing))]


def _items(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(key if isinstance(key, str) else "?", inner) for key, inner in value.items()]
    if isinstance(value, (list, tuple)):
        return [("?", inner) for inner in value]
    if isinstance(value, Thing) and not value.is_tensor:
        return [("?", inner) for inner in (*value.parts, value.state)]
    return []


@dataclass
class _Limited:
    """A stream that ends with SkeletonError after MAX_BYTES, and remembers whether it came to its end."""

    stream: IO[bytes]
    left: int = MAX_BYTES
    ended: bool = False

    def read(self, size: int) -> bytes:
        self._take(size)
        data = self.stream.read(size)
        self.ended = len(data) < size
        return data

    def readline(self) -> bytes:
        data = self.stream.readline(self.left + 1)
        self.ended = not data.endswith(b"\n")
        self._take(len(data))
        return data

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise SkeletonError(f"is damaged, or holds more than {MAX_BYTES >> 20} MiB besides its tensors")


class _Machine:
    """The pickle machine with its hands tied: an instruction takes things from the stack and leaves one there."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.names: dict[str, None] = {}

    def step(self, name: str, arg: Any) -> None:
        """Follow one instruction."""
        if name in _MAKING:
            count, make = _MAKING[name]
            taken = self._take(count)
            self.stack.append(make(*taken))
        elif name in {"GLOBAL", "INST", "STACK_GLOBAL"}:
            made_by = self._global(*(self._take(2) if name == "STACK_GLOBAL" else arg.split(" ", 1)))
            made = _make(made_by, self._take(_MARKED)) if name == "INST" else made_by
            self.stack.append(made)
        elif name in {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}:
            self.memo[len(self.memo) if arg is None else arg] = self.stack[-1]
        elif name in {"GET", "BINGET", "LONG_BINGET"}:
            self.stack.append(self.memo[arg])
        elif name in {"MARK", "POP", "POP_MARK", "DUP"}:
            self._shuffle(name)
        elif name.startswith("EXT") or (arg is None and name != "STOP"):
            raise SkeletonError(f"uses the instruction {name}, which no model file does")
        elif name not in {"PROTO", "FRAME", "STOP"}:
            self.stack.append(arg)

    def _take(self, count: int) -> list[Any]:
        if count >= 0:
            return [self.stack.pop() for _ in range(count)][::-1]
        items, self.stack = self.stack, self.outer.pop()
        return items if count == _MARKED else [self.stack.pop(), *items]

    def _shuffle(self, name: str) -> None:
        if name == "MARK":
            self.outer.append(self.stack)
            self.stack = []
        elif name == "DUP":
            self.stack.append(self.stack[-1])
        else:
            self._take(1 if name == "POP" and self.stack else _MARKED)

    def _global(self, module: Any, name: Any) -> Thing:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a global needs two names")
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        self.names[f"{module}.{name}"] = None
        return Thing(f"{module}.{name}")


def _make(made_by: Any, parts: Any, named: Any = None) -> Any:
    full = made_by.full if isinstance(made_by, Thing) else "?"
    return {} if full in _DICTS else Thing(full, [made_by, parts, named])


def _persistent(pid: Any) -> Thing:
    """A storage, or (before torch 1.6) a module's class with its source text."""
    parts: tuple[Any, ...] = (*pid, None, None) if isinstance(pid, tuple) else (None, None)
    kind, made_by = parts[:2]
    return made_by if kind == "module" and isinstance(made_by, Thing) else Thing("", [pid])


def _build(target: Any, state: Any) -> Any:
    if isinstance(target, Thing):
        target.state = state
    return target


def _add(target: Any, *items: Any) -> Any:
    (target.parts if isinstance(target, Thing) else target).extend(items)
    return target


def _set(target: Any, *items: Any) -> Any:
    for key, value in zip(items[::2], items[1::2], strict=True):
        if isinstance(target, Thing):
            target.parts.append(value)
        else:
            target[key if isinstance(key, (str, int, float, bytes)) else Thing("", [key])] = value
    return target


_MARKED = -1
_TARGET_AND_MARKED = -2
# How many things an instruction takes from the stack, and what it makes of them; a set is as good as a list here.
_MAKING: dict[str, tuple[int, Callable[..., Any]]] = {
    "NONE": (0, lambda: None),
    "NEWTRUE": (0, lambda: True),
    "NEWFALSE": (0, lambda: False),
    "EMPTY_TUPLE": (0, tuple[Any, ...]),
    "EMPTY_LIST": (0, list[Any]),
    "EMPTY_SET": (0, list[Any]),
    "EMPTY_DICT": (0, dict[Any, Any]),
    "TUPLE1": (1, lambda *items: items),
    "TUPLE2": (2, lambda *items: items),
    "TUPLE3": (3, lambda *items: items),
    "TUPLE": (_MARKED, lambda *items: items),
    "LIST": (_MARKED, lambda *items: [*items]),
    "FROZENSET": (_MARKED, lambda *items: [*items]),
    "DICT": (_MARKED, lambda *items: _set({}, *items)),
    "APPEND": (2, _add),
    "APPENDS": (_TARGET_AND_MARKED, _add),
    "ADDITEMS": (_TARGET_AND_MARKED, _add),
    "SETITEM": (3, _set),
    "SETITEMS": (_TARGET_AND_MARKED, _set),
    "REDUCE": (2, _make),
    "NEWOBJ": (2, _make),
    "NEWOBJ_EX": (3, _make),
    "OBJ": (_MARKED, lambda *items: _make(items[0], items[1:])),
    "BUILD": (2, _build),
    "PERSID": (0, lambda: Thing("")),
    "BINPERSID": (1, _persistent),
}

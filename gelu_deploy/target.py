"""Find what ``FILE.py:NAME`` or ``MODULE:NAME`` points at.

It knows nothing of networks, exporters or files of weights: it returns the object and leaves calling it to the caller,
who may wrap the call in :func:`importable` so that late imports beside the file work too.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from gelu_deploy.errors import TargetError

_brought: dict[str, str] = {}


def split(target: str) -> tuple[str, str]:
    """``("FILE.py" or "MODULE", "NAME")``. Raises TargetError when the target is not of this shape."""
    where, colon, name = target.rpartition(":")
    if not (colon and where and name.replace(".", "_").isidentifier()):
        raise TargetError(f"{target!r} is no target: expected FILE.py:NAME or MODULE:NAME, e.g. nets/vit.py:make_vit")
    return where, name


def load(target: str) -> Any:
    """The object that ``target`` names; for a dotted NAME, attribute by attribute.

    A file is loaded under a private module name, so it takes no name (``models``, ``utils``) that the code it builds
    or unpickles may need for itself; the same file with the same content is loaded once.

    Raises:
        TargetError: The file or module is not there, fails while it is imported, or lacks the name.
    """
    where, name = split(target)
    found: Any = module(where)
    for part in name.split("."):
        found = _attribute(found, part, where)
        where += f":{part}" if where == split(target)[0] else f".{part}"
    return found


def module(where: str) -> ModuleType:
    """The module that is the file ``FILE.py`` or is called ``MODULE``. Raises TargetError as :func:`load` does."""
    with importable(where):
        return _from_file(Path(where).resolve()) if where.endswith(".py") else _from_module(where)


@contextmanager
def importable(where: str) -> Generator[None]:
    """Meanwhile, what lies beside ``where`` can be imported: a file's own folder, for a module the working directory.

    ``sys.path`` is restored afterwards. Modules that were found beside another file step aside meanwhile, so that two
    files may each have their own ``layers.py``.
    """
    folders = [str(folder) for folder in _folders(where)]
    aside = {name: sys.modules.pop(name) for name in list(sys.modules) if _of_another(name, folders)}
    before, path = set(sys.modules), list(sys.path)
    sys.path[:0] = [folder for folder in folders if folder not in path]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        _remember(before, folders)
        for name, stepped in aside.items():
            sys.modules.setdefault(name, stepped)


def _folders(where: str) -> list[Path]:
    """The file's folder and, if that is a package, the folder that holds the package."""
    folder = Path(where).resolve().parent if where.endswith(".py") else Path.cwd()
    package = _package(folder) if where.endswith(".py") else ()
    return [folder, folder.parents[len(package) - 1]] if package else [folder]


def _package(folder: Path) -> tuple[str, ...]:
    """The dotted name of the package that a folder is, in parts; empty when it is none."""
    if not (folder / "__init__.py").is_file():
        return ()
    return (*_package(folder.parent), folder.name)


def _of_another(name: str, folders: list[str]) -> bool:
    return _brought.get(name.partition(".")[0], folders[0]) not in folders


def _remember(before: set[str], folders: list[str]) -> None:
    """Keep which top-level modules came from these folders."""
    for name in {name.partition(".")[0] for name in set(sys.modules) - before} - before:
        file = getattr(sys.modules.get(name), "__file__", None)
        place = Path(file) if file else Path()
        home = str(place.parent.parent if place.name == "__init__.py" else place.parent)
        if home in folders and not name.startswith("_gelu_deploy_"):
            _brought[name] = home


def _from_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            advice = "expected a module that Python can import from here, or a file: FILE.py:NAME"
            raise TargetError(f"no module named {name!r}: {advice}") from None
        raise TargetError(f"importing {name} failed: {_one_line(error, name)}") from error
    except (Exception, SystemExit) as error:
        raise TargetError(f"importing {name} failed: {_one_line(error, name)}") from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        near = get_close_matches(path.name, [other.name for other in path.parent.glob("*.py")], n=1)
        raise TargetError(f"no file {path.name} in {path.parent}" + (f"; did you mean {near[0]}?" if near else ""))
    digest = hashlib.sha256(str(path).encode() + b"\0" + path.read_bytes()).hexdigest()[:12]
    name = ".".join((*_package(path.parent), f"_gelu_deploy_{path.stem.replace('.', '_')}_{digest}"))
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be imported: expected a Python file")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # dataclasses and pickle look modules up by name
    try:
        spec.loader.exec_module(made)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, (Exception, SystemExit)):
            raise TargetError(f"importing {path.name} failed: {_one_line(error, str(path))}") from error
        raise
    return made


def _attribute(found: Any, part: str, where: str) -> Any:
    try:
        return getattr(found, part)
    except AttributeError:
        held = getattr(found, "__dict__", {})
        names = sorted(name for name in held if not name.startswith("_"))
        near = get_close_matches(part, names, n=1)
        own = [name for name in names if getattr(held[name], "__module__", "") == held.get("__name__")]
        advice = f"did you mean {near[0]}?" if near else f"it has: {', '.join(own or names) or 'nothing'}"
        raise TargetError(f"{where} has no {part!r}; {advice}") from None


def _one_line(error: BaseException, file: str) -> str:
    """The exception in one line, with the line of the file that it came from."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" + (f" (line {lines[-1]})" if lines else "")

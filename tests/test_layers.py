"""Who may import whom: the dependency rules, and the size of files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = sorted((ROOT / "gelu_deploy").rglob("*.py"))
EXPORTERS = sorted((ROOT / "exporters").rglob("*.py"))
SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file() and path.suffix != ".txt")
CODE = [*CORE, *EXPORTERS, *sorted((ROOT / "models").rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py")), *SCRIPTS]

TORCH = {"torch", "onnxscript", "safetensors", "transformers"}
MAY_IMPORT_TORCH = ("nn/",)
MAY_IMPORT_ONNXRUNTIME = ("runtime/", "quantization/")
MAY_IMPORT_OF_OURS = {
    "errors.py": set[str](),
    "target.py": {"gelu_deploy.errors"},
}


def imported(path: Path) -> Iterator[str]:
    """Every module that the file imports, anywhere in it; relative ones of the core by their full name."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            base = [".".join(package[: len(package) - node.level + 1])] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def tops(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


def named(path: Path) -> str:
    return path.relative_to(ROOT / "gelu_deploy").as_posix()


@pytest.mark.parametrize("path", CORE, ids=named)
def test_core_keeps_to_its_layer(path: Path) -> None:
    name, ours = named(path), {one for one in imported(path) if one.startswith("gelu_deploy")}
    assert name.startswith(MAY_IMPORT_TORCH) or not tops(path) & TORCH
    assert name.startswith(MAY_IMPORT_ONNXRUNTIME) or "onnxruntime" not in tops(path)
    assert not tops(path) & {"exporters", "models", "tests", "scripts"}
    assert not {one for one in ours if one.startswith("gelu_deploy.exporters")}
    assert name.startswith(("__main__.py", "cli/")) or not {one for one in ours if one.startswith("gelu_deploy.cli")}


@pytest.mark.parametrize("room", ["options", "results"])
def test_what_all_may_know_knows_only_itself(room: str) -> None:
    for path in (ROOT / "gelu_deploy" / room).glob("*.py"):
        ours = {one for one in imported(path) if one.startswith("gelu_deploy")}
        assert not {one for one in ours if not one.startswith(f"gelu_deploy.{room}")}, path


@pytest.mark.parametrize("name", MAY_IMPORT_OF_OURS)
def test_the_ground_floor_stands_alone(name: str) -> None:
    ours = {one for one in imported(ROOT / "gelu_deploy" / name) if one.startswith("gelu_deploy")}
    allowed = MAY_IMPORT_OF_OURS[name]
    assert not {one for one in ours if one not in allowed and one.rpartition(".")[0] not in allowed}


@pytest.mark.parametrize("path", EXPORTERS, ids=lambda path: path.name)
def test_exporters_reach_each_other_relatively_and_run_nothing(path: Path) -> None:
    assert not {n for n in imported(path) if n.startswith("gelu_deploy.exporters") or n.partition(".")[0] == "models"}
    assert "onnxruntime" not in tops(path)


def test_nobody_imports_what_hijacks_the_name_models() -> None:
    for path in (path for path in CODE if path.suffix == ".py"):
        assert not {name for name in imported(path) if name.startswith("onnxruntime.transformers")}, path


def test_no_file_is_longer_than_300_lines() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in CODE}
    assert {path: lines for path, lines in lengths.items() if lines > 300} == {}


def test_imports_are_read_out_of_functions_and_relative_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "gelu_deploy" / "graph" / "one.py"
    file.parent.mkdir(parents=True)
    file.write_text("def f():\n    import torch.nn\n    from . import two\n    from ..cli import main\n")
    assert set(imported(file)) == {
        "torch.nn",
        "gelu_deploy.graph",
        "gelu_deploy.graph.two",
        "gelu_deploy.cli",
        "gelu_deploy.cli.main",
    }

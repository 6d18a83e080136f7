"""Targets: what they find, what they leave behind, and how a bad one is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gelu_deploy.errors import TargetError
from gelu_deploy.target import importable, load


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_file_finds_its_neighbours_and_the_path_is_restored(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", near_one="VALUE = 3", net="from near_one import VALUE\ndef make(): return VALUE")
    before = list(sys.path)
    assert load(f"{folder}/net.py:make")() == 3
    assert sys.path == before


def test_neighbours_of_the_same_name_are_not_mixed_up(tmp_path: Path) -> None:
    text = "import near_two\nvalue = near_two.VALUE"
    first = write(tmp_path / "a", near_two="VALUE = 1", net=text)
    second = write(tmp_path / "b", near_two="VALUE = 2", net=text)
    assert [load(f"{folder}/net.py:value") for folder in (first, second, first)] == [1, 2, 1]


def test_a_late_import_works_while_the_folder_is_importable(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "a", near_late="VALUE = 5", net="def make():\n    import near_late\n    return near_late.VALUE"
    )
    make = load(f"{folder}/net.py:make")
    with pytest.raises(ModuleNotFoundError):
        make()
    with importable(f"{folder}/net.py"):
        assert make() == 5


def test_package_relative_imports(tmp_path: Path) -> None:
    folder = write(tmp_path / "pack_rel", __init__="", parts="VALUE = 7", net="from .parts import VALUE")
    assert load(f"{folder}/net.py:VALUE") == 7


def test_a_file_takes_no_module_name_a_user_may_need(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", models="class Net: pass")
    before = set(sys.modules)
    net = load(f"{folder}/models.py:Net")
    assert "models" not in sys.modules
    assert all(name.startswith("_gelu_deploy_") for name in set(sys.modules) - before)
    assert getattr(sys.modules[net.__module__], "Net") is net  # noqa: B009 - the name is looked up as pickle does


def test_an_edited_file_is_loaded_anew(tmp_path: Path) -> None:
    write(tmp_path, net="value = 1")
    assert load(f"{tmp_path}/net.py:value") == 1
    write(tmp_path, net="value = 2")
    assert load(f"{tmp_path}/net.py:value") == 2


def test_a_module_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, here_now="class Net:\n    size = 4")
    monkeypatch.chdir(tmp_path)
    assert load("here_now:Net.size") == 4
    assert load("collections:OrderedDict") is __import__("collections").OrderedDict


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_package", ["net.py", "ModuleNotFoundError", "no_such_package", "line 1"]),
        ("x = 1\nraise ValueError('two\\nlines')", ["ValueError: two lines", "line 2"]),
        ("def broken(:", ["SyntaxError", "net.py"]),
        ("import sys\nsys.exit(3)", ["SystemExit"]),
    ],
)
def test_a_file_that_fails_is_named_in_one_line(tmp_path: Path, text: str, words: list[str]) -> None:
    write(tmp_path, net=text)
    with pytest.raises(TargetError) as caught:
        load(f"{tmp_path}/net.py:make")
    assert "\n" not in str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("vit", "expected FILE.py:NAME"),
        ("vit.py:", "expected FILE.py:NAME"),
        (":name", "expected FILE.py:NAME"),
        ("no_such_module:name", "no module named 'no_such_module'"),
        ("collections:OrderedDct", "did you mean OrderedDict?"),
        ("{}/nett.py:make", "did you mean net.py?"),
        ("{}/net.py:other_name", "it has: make"),
    ],
)
def test_bad_targets_are_named(tmp_path: Path, target: str, words: str) -> None:
    write(tmp_path, net="def make(): return 1")
    with pytest.raises(TargetError) as caught:
        load(target.format(tmp_path))
    assert words in str(caught.value)

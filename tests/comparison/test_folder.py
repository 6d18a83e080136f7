"""The folder of a comparison: whole, of one run, and nobody else's files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from gelu_deploy.comparison.folder import INDEX, opened
from gelu_deploy.errors import OutputError

REPORTS = (INDEX, "report.md")


def fill(path: Path, *files: str, text: str = "new", overwrite: bool = False, used: Iterable[Path] = ()) -> None:
    with opened(path, overwrite=overwrite, used=used) as place:
        for name in files:
            (place.stage / name).write_text(text)
        listed = [place.named(name) for name in (*files, *REPORTS)]
        (place.stage / INDEX).write_text(json.dumps({"schema": "gelu-deploy/compare/1", "files": listed}))
        (place.stage / "report.md").write_text(text)
        place.publish(REPORTS)


def held(path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(path.iterdir())}


def test_it_appears_with_all_its_files_and_no_other(tmp_path: Path) -> None:
    fill(tmp_path / "m.compare", "int8.onnx")
    assert list(held(tmp_path / "m.compare")) == ["int8.onnx", *REPORTS]
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.compare"]


def test_what_is_in_it_already_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("mine")
    with (
        pytest.raises(OutputError, match=r"is not empty\. Pass --overwrite"),
        opened(tmp_path, overwrite=False, used=[]),
    ):
        pytest.fail("it was opened")
    with pytest.raises(OutputError, match="is no folder"), opened(tmp_path / "own.txt", overwrite=True, used=[]):
        pytest.fail("it was opened")
    with pytest.raises(OutputError, match="cannot be written"), opened(tmp_path / "no" / "o", overwrite=True, used=[]):
        pytest.fail("it was opened")
    assert held(tmp_path) == {"own.txt": "mine"}


def test_files_of_an_earlier_run_go_and_those_of_others_stay(tmp_path: Path) -> None:
    fill(tmp_path, "int8.onnx", "int8.tanh.onnx", text="old")
    (tmp_path / "own.txt").write_text("mine")
    fill(tmp_path, "int8.onnx", overwrite=True)
    found = held(tmp_path)
    assert list(found) == ["int8.onnx", "own.txt", *REPORTS]
    assert (found["int8.onnx"], found["own.txt"], found["report.md"]) == ("new", "mine", "new")


@pytest.mark.parametrize("index", ["{", "[]", '{"schema": "another/1", "files": ["own.txt"]}'])
def test_a_list_that_is_not_ours_removes_nothing(tmp_path: Path, index: str) -> None:
    (tmp_path / INDEX).write_text(index)
    (tmp_path / "own.txt").write_text("mine")
    fill(tmp_path, "int8.onnx", overwrite=True)
    assert "own.txt" in held(tmp_path)


def test_a_list_reaches_no_other_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "m").mkdir()
    files = ["../outside", "/", "..", str(tmp_path / "outside")]
    (tmp_path / "m" / INDEX).write_text(json.dumps({"schema": "gelu-deploy/compare/1", "files": files}))
    fill(tmp_path / "m", "int8.onnx", overwrite=True)
    assert (tmp_path / "outside").read_text() == "mine"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_that_does_not_end_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    def broken(name: str) -> None:
        with opened(tmp_path / name, overwrite=True, used=[]) as place:
            (place.stage / "int8.onnx").write_text("half")
            raise error

    fill(tmp_path / "old", "int8.onnx", text="old")
    before = held(tmp_path / "old")
    for name in ("old", "new"):
        with pytest.raises(error):
            broken(name)
    assert held(tmp_path / "old") == before
    assert not (tmp_path / "new").exists()


def test_a_stage_that_a_killed_run_left_is_nothing_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / f".{INDEX}.stage-killed").mkdir()
    fill(tmp_path, "int8.onnx")
    assert list(held(tmp_path)) == ["int8.onnx", *REPORTS]


def test_no_report_of_an_earlier_run_stands_beside_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "int8.onnx", text="old")
    real = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == "report.md":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match="No space left on device"):
        fill(tmp_path, "int8.onnx", overwrite=True)
    assert not {file.name for file in tmp_path.iterdir()} & set(REPORTS)


def test_what_is_read_meanwhile_must_not_be_in_it(tmp_path: Path) -> None:
    fill(tmp_path / "m", "float.onnx")
    with pytest.raises(OutputError, match=r"float\.onnx is in .*Name another folder with --output"):
        fill(tmp_path / "m", "int8.onnx", overwrite=True, used=[tmp_path / "m" / "float.onnx"])
    assert "float.onnx" in held(tmp_path / "m")

"""The three files: what is in them, and what is left when they cannot be written."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from compare_sample import comparison

from gelu_deploy import report
from gelu_deploy.errors import OutputError, SetupError
from gelu_deploy.report import page
from gelu_deploy.strict_json import as_json


def test_three_files_in_place_of_older_ones(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    result = comparison()
    paths = report.write(result, tmp_path)
    assert paths == [tmp_path / name for name in ("report.json", "report.md", "report.html")]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert paths[0].read_text(encoding="utf-8") == as_json(result)
    assert json.loads(paths[0].read_text(encoding="utf-8"))["variants"][0]["agreement"] is None
    assert paths[1].read_text(encoding="utf-8").startswith("# FAIL: int8 must not ship\n")
    assert "<!doctype html>" in paths[2].read_text(encoding="utf-8")


def test_the_same_result_is_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        [path.read_bytes() for path in report.write(comparison(), tmp_path)]
        for _ in range(2)
    )  # fmt: skip
    assert first == second


def test_bytes_that_are_no_text_in_a_file_name_are_written(tmp_path: Path) -> None:
    broken = os.fsdecode(b"model\xff.onnx")
    paths = report.write(comparison(files=[broken]), tmp_path)
    assert all("udcff" in path.read_text(encoding="utf-8") for path in paths)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        report.write(comparison(), tmp_path / "none")


def test_without_jinja_nothing_is_written_and_the_remedy_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    page.environment.cache_clear()
    with pytest.raises(SetupError, match=r"pip install 'gelu-deploy\[report\]'"):
        report.write(comparison(), tmp_path)
    with pytest.raises(SetupError):
        page.environment()
    assert list(tmp_path.iterdir()) == []

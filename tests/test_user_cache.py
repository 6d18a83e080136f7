"""The user's folder for what can be made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gelu_deploy import user_cache


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache.folder("things") == tmp_path / "gelu-deploy" / "things"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache.folder("things") == tmp_path / ".cache" / "gelu-deploy" / "things"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kept.txt"
    for text in ("one", "two"):
        with user_cache.replacing(path) as part:
            part.write_text(text)
            assert path.exists() == (text == "two")
        assert path.read_text() == text
    with pytest.raises(OSError, match="full"), user_cache.replacing(path) as part:  # noqa: PT012  # written, then failed
        part.write_text("thr")
        raise OSError("full")
    assert path.read_text() == "two"
    assert list(path.parent.iterdir()) == [path]

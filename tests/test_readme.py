"""What the README tells people to type works, and shows what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gelu_deploy import cli


def blocks(readme: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like a fresh checkout, as far as the commands can tell."""
    here = tmp_path_factory.mktemp("readme")
    (here / "models").symlink_to(root / "models")
    return here


def test_the_commands_run_in_order_and_the_session_is_the_one_shown(root: Path, folder: Path) -> None:
    readme = (root / "README.md").read_text()
    commands = [line for block in blocks(readme, "sh") for line in block.replace("\\\n", " ").splitlines()]
    ours = [_split(line) for line in commands if line.startswith("python -m gelu_deploy")]
    verbs = [command[3] for command in ours]
    assert verbs == [
        "export", "inspect", "check", "run", "doctor", "check", "survey", "quantize", "compare", "bench", "forms",
        "forms",
    ]  # fmt: skip
    printed = [
        subprocess.run([sys.executable, *command[1:]], cwd=folder, check=True, capture_output=True, text=True).stdout
        for command in ours
        if not _takes_minutes(command)
    ]
    shown = dict(zip(("export", "survey", "quantize"), blocks(readme, "text"), strict=True))
    for verb, text in shown.items():
        wanted, got = _words(text), _words(printed[verbs.index(verb)])
        assert (got[: len(wanted)] if verb == "survey" else got) == wanted, verb  # what its columns mean is left out

    for code in blocks(readme, "python"):
        if "fastapi" not in code:
            subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
        compile(code, "README.md", "exec")


def test_commands_that_take_minutes_are_understood(root: Path) -> None:
    text = "\n".join(blocks((root / "README.md").read_text(), "sh")).replace("\\\n", " ")
    long = [command for command in map(_split, text.splitlines()) if _takes_minutes(command)]
    assert [cli._parse(command[3:]) is not None for command in long] == [True, True]


def test_links_and_scripts_exist(root: Path) -> None:
    readme = (root / "README.md").read_text()
    for script in re.findall(r"^scripts/\w+", readme, re.MULTILINE):
        assert (root / script).is_file(), script


def _split(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def _takes_minutes(command: list[str]) -> bool:
    """Those have slow tests of their own."""
    return "compare" in command[3:4] or "--bench" in command


def _words(text: str) -> list[str]:
    """What a run prints, without the times, numbers and choices that differ from machine to machine."""
    text = re.sub(r"^(seconds|calibration|notes) .*\n(?: .*\n)*", "", text, flags=re.MULTILINE)
    return re.findall(r"[A-Za-z_]{2,}", re.sub(r"-[0-9a-f]{12}\.|\de-?\d", " ", text))

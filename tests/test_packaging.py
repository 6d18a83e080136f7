"""What is installed: the wheel's contents, the pins, the set-up."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = [
    line
    for line in (ROOT / "scripts" / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.slow
def test_wheel_holds_every_module_and_template_under_one_name(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for folder in ("gelu_deploy", "exporters"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / file, source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    core = {f"gelu_deploy/{p.relative_to(source / 'gelu_deploy')}" for p in (source / "gelu_deploy").rglob("*.*")}
    exporters = {
        f"gelu_deploy/exporters/{p.relative_to(source / 'exporters')}" for p in (source / "exporters").rglob("*.py")
    }
    assert {name for name in packed if ".dist-info/" not in name} == core | exporters
    assert {"gelu_deploy/py.typed", "gelu_deploy/report/templates/page.html"} <= core
    assert {name.partition("/")[0].partition("-")[0] for name in packed} == {"gelu_deploy"}


def test_every_package_of_ours_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    core = {".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / "gelu_deploy").rglob("*.py")}
    assert set(listed) == core | {"gelu_deploy.exporters"}


def test_every_requirement_is_pinned_to_a_version_that_it_allows() -> None:
    assert [line for line in PINS if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []
    pins = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in PINS)}
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["cpu"], *extras["torch"], *extras["dev"]]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), text
    assert "torch==2.13.0" in PINS


def test_the_core_needs_neither_torch_nor_a_runtime() -> None:
    core = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert core == {"numpy", "onnx", "onnx-ir", "onnxsim", "cyclopts", "rich", "ml-dtypes"}


@pytest.mark.skipif(not (Path(sys.prefix) / "gelu-deploy-stamp").is_file(), reason="this is not scripts/setup's .venv")
def test_a_second_set_up_does_nothing_quickly(tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts" / "setup"], cwd=tmp_path, check=True, capture_output=True)
    start = time.perf_counter()
    done = subprocess.run([ROOT / "scripts" / "setup"], cwd=tmp_path, check=True, capture_output=True)
    assert time.perf_counter() - start < 1
    assert done.stdout + done.stderr == b""

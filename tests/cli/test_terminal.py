"""The process around a command, seen from outside: what its streams carry when things are not as usual."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RESULT = {"schema": "gelu-deploy/doctor/1", "findings": [], "verdict": "pass"}


def process(body: str, *argv: str, **keywords: Any) -> subprocess.Popen[str]:
    """A process whose doctor has this body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    program = (
        "import os, sys, time, types\nfrom gelu_deploy import cli\n"
        f"RESULT = {RESULT!r}\ndef doctor(options):\n{lines}\n"
        "module = types.ModuleType('gelu_deploy.verbs.doctor'); module.doctor = doctor\n"
        "sys.modules[module.__name__] = module\nsys.exit(cli.main(['doctor', *sys.argv[1:]]))\n"
    )
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", program, *argv], text=True, **{"stdout": pipe, "stderr": pipe, **keywords}
    )


def test_what_others_print_never_reaches_stdout() -> None:
    stray = "print('python')\nos.write(1, b'native\\n')\nos.system('echo child')\nreturn RESULT"
    out, err = process(stray, "--json", "-").communicate(timeout=60)
    assert json.loads(out) == RESULT
    assert set(err.split()) == {"python", "native", "child"}


def test_a_reader_that_leaves_is_no_error() -> None:
    child = process("time.sleep(1)\nreturn {**RESULT, 'verdict': 'fail'}")
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(timeout=60) == 1
    assert child.stderr is not None
    assert child.stderr.read() == ""
    child.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_is_7() -> None:
    with Path("/dev/full").open("w") as full:
        child = process("return RESULT", stdout=full)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 7
    assert said == "gelu-deploy: The result cannot be written to standard output: No space left on device.\n"


def test_a_poor_encoding_reads_plain() -> None:
    finding = "{'name': 'a → b × 2', 'found': 'ÿ', 'ok': True, 'advice': ''}"
    child = process(f"return {{**RESULT, 'findings': [{finding}]}}", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, err = child.communicate(timeout=60)
    assert out.isascii()
    assert "a > b x 2  ?" in out
    assert err == ""


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_closed_stream_is_no_bug(closed: str) -> None:
    command = f"{sys.executable} -m gelu_deploy expotr {closed}"
    assert subprocess.run(["bash", "-c", command], check=False, capture_output=True).returncode == 2

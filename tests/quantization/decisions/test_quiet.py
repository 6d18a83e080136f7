from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from gelu_deploy.quantization.decisions.quiet import quiet


def test_the_tools_leave_logging_as_it_was() -> None:
    code = (
        "import logging; import quantize_networks as n; from gelu_deploy.quantization.decisions import insert\n"
        "insert.weight_only(n.block()); insert.dynamic(n.block())\n"
        "print(logging.getLogger().handlers, logging.getLogger().level, logging.getLogger().filters)"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.stdout.strip() == f"[] {logging.WARNING} []"
    assert done.stderr == ""


def test_messages_of_others_are_heard_all_the_while(caplog: pytest.LogCaptureFixture) -> None:
    with quiet():
        logging.getLogger("somebody").warning("heard")
    assert caplog.messages == ["heard"]

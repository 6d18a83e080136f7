"""The command line as a process sees it: words in, exit code, standard streams and files out."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gelu_deploy import cli, errors, progress
from gelu_deploy.options import ExportOptions, RunOptions

HEAVY = {"torch", "onnx", "onnx_ir", "onnxruntime", "onnxsim", "onnxscript", "transformers", "numpy"}
RESULT = {"schema": "gelu-deploy/doctor/1", "findings": [], "verdict": "pass"}

Verb = Callable[..., Any]
Install = Callable[[str, Verb], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a function in the place of a verb."""

    def put(name: str, verb: Verb) -> None:
        module = ModuleType(f"gelu_deploy.verbs.{name}")
        setattr(module, name, verb)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return put


def keeping(calls: list[Any]) -> Verb:
    def verb(*arguments: Any) -> Any:
        calls.append(arguments)
        return RESULT

    return verb


def raising(error: BaseException) -> Verb:
    def verb(*_arguments: Any) -> Any:
        raise error

    return verb


@pytest.mark.parametrize("words", [["--help"], ["export", "--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys; from gelu_deploy.cli import main; code = main(sys.argv[1:]); print(*sys.modules); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()[-1].split()) & HEAVY == set()


def test_help_is_quick() -> None:
    """0.3 s of processor time; on a slow or busy machine, 3 times what it takes to import its two libraries."""

    def took(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    libraries = ("-c", "import cyclopts, rich.console, rich.table")
    assert any(took("-m", "gelu_deploy", "--help") < max(0.3, 3 * took(*libraries)) for _ in range(10))


def test_help_shows_every_command_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in cli.COMMANDS if name not in shown] == []
    assert cli.main(["export", "--help"]) == 0
    shown = capsys.readouterr().out
    flags = {
        "--model",
        "-m",
        "-o",
        "--arch-arg",
        "--trust-pickle",
        "--no-simplify",
        "--ep",
        "--max-form-error",
        "--json",
    }
    assert {flag for flag in flags if flag not in shown} == set()


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["no such command"], 2)], ids=["passes", "fails"])
def test_the_program_leaves_with_everything_said_and_done(words: list[str], code: int) -> None:
    """It ends without taking apart what it holds, but not without what was registered for the end."""
    program = "import atexit, sys; from gelu_deploy.cli import run; atexit.register(print, 'the end'); run()"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stdout.endswith("the end\n")
    assert bool(done.stderr) == bool(code)


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    import gelu_deploy

    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"gelu-deploy {gelu_deploy.__version__}\n"


@pytest.mark.parametrize("words", [["m.pt"], ["-m", "m.pt"], ["--model", "m.pt"]], ids=" ".join)
def test_flags_become_options(words: list[str], install: Install) -> None:
    calls: list[Any] = []
    install("export", keeping(calls))
    flags = ["-o", "y.onnx", "--form", "tanh", "--input", "x:1:int64", "--input", "z:2:int64", "--arch_arg", "depth=4"]
    assert cli.main(["export", *words, *flags, "--no-batch", "--max-form-error", "1e-3", "--ep", "cuda"]) == 0
    assert calls == [
        (
            "m.pt",
            ExportOptions(
                output="y.onnx",
                form="tanh",
                input=("x:1:int64", "z:2:int64"),
                arch_arg=("depth=4",),
                batch=False,
                max_form_error=1e-3,
                provider="cuda",
            ),
        )
    ]


def test_a_flag_that_must_be_given(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[Any] = []
    install("run", keeping(calls))
    assert cli.main(["run", "m.onnx"]) == 2
    assert "--data" in capsys.readouterr().err
    assert cli.main(["run", "m.onnx", "--data", "x.npz"]) == 0
    assert calls == [("m.onnx", RunOptions(data="x.npz"))]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["expotr", "m.pt"], "export"),
        (["export"], "--model"),
        (["export", "m.pt", "--frm", "erf"], "--form"),
        (["export", "m.pt", "--form", "gelu"], "sigmoid"),
        (["export", "m.pt", "more.pt"], "more.pt"),
    ],
)
def test_misuse_is_2_and_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    streams = capsys.readouterr()
    assert said in streams.err
    assert streams.err.startswith("gelu-deploy: ")
    assert "Traceback" not in streams.err
    assert streams.out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("told"), 2),
        (errors.TargetError("told"), 2),
        (errors.UnsafeError("told"), 3),
        (errors.ModelError("told"), 4),
        (errors.LimitError("told"), 5),
        (errors.NativeCrash("told"), 6),
        (errors.SetupError("told"), 7),
        (errors.OutputError("told"), 7),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_has_its_code_and_no_traceback(
    error: Exception, code: int, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("doctor", raising(error))
    assert cli.main(["doctor", "--json", "-"]) == code
    assert capsys.readouterr() == ("", "gelu-deploy: told\n")


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("fail", 1)])
def test_a_verdict_decides_the_code(verdict: str, code: int, install: Install) -> None:
    install("doctor", lambda _options: {**RESULT, "verdict": verdict})
    assert cli.main(["doctor"]) == code


def test_a_bug_leaves_its_traceback_in_a_file(
    install: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    install("doctor", raising(KeyError("lost")))
    assert cli.main(["doctor"]) == 70
    said = capsys.readouterr().err
    (file,) = tmp_path.iterdir()
    assert str(file) in said
    assert "Traceback" not in said
    assert "Traceback" in file.read_text()
    assert "KeyError: 'lost'" in file.read_text()


def test_interruption_memory_and_termination(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("doctor", raising(KeyboardInterrupt()))
    assert cli.main(["doctor"]) == 130
    install("doctor", raising(MemoryError()))
    assert cli.main(["doctor"]) == 5
    before = signal.getsignal(signal.SIGTERM)
    install("doctor", lambda _options: signal.raise_signal(signal.SIGTERM))
    assert cli.main(["doctor"]) == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_json_is_strict_and_alone_on_stdout(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"good": 0.5, "nan": math.nan, "in": [math.inf, {"deep": (-math.inf, 1)}]}
    install("doctor", lambda _options: {**RESULT, "values": values})
    assert cli.main(["doctor", "--json", "-"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["values"] == {"good": 0.5, "nan": None, "in": [None, {"deep": [None, 1]}]}
    assert re.search("NaN|Infinity", out) is None


def test_json_file_beside_the_tables(install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("doctor", lambda _options: RESULT)
    file = tmp_path / "report.json"
    file.write_text("old")
    assert cli.main(["doctor", "--json", str(file)]) == 0
    assert json.loads(file.read_text()) == RESULT
    assert capsys.readouterr().out.endswith("pass\n")
    assert list(tmp_path.iterdir()) == [file]


def test_json_goes_into_a_pipe_that_exists(install: Install, tmp_path: Path) -> None:
    install("doctor", lambda _options: RESULT)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    assert cli.main(["doctor", "--json", str(pipe)]) == 0
    assert json.loads(reader.communicate(timeout=60)[0]) == RESULT
    assert pipe.is_fifo()


def test_json_that_cannot_be_written_is_7(install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("doctor", raising(AssertionError("the work must not begin")))
    assert cli.main(["doctor", "--json", str(tmp_path / "no" / "report.json")]) == 7
    install("doctor", lambda _options: RESULT)
    assert cli.main(["doctor", "--json", str(tmp_path)]) == 7
    assert capsys.readouterr().err.count("gelu-deploy: ") == 2
    assert list(tmp_path.iterdir()) == []


def test_steps_are_silent_without_a_terminal(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    def verb(_options: Any) -> Any:
        with progress.step("looking around"):
            return RESULT

    install("doctor", verb)
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().err == ""


def test_python_dash_m_is_the_command() -> None:
    module = subprocess.run(
        [sys.executable, "-m", "gelu_deploy", "expotr"], capture_output=True, text=True, check=False
    )
    command = subprocess.run(
        [Path(sys.executable).parent / "gelu-deploy", "expotr"], capture_output=True, text=True, check=False
    )
    assert (module.returncode, module.stderr) == (command.returncode, command.stderr)
    assert module.returncode == 2

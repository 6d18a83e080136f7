"""What a newcomer types wrong, or in a way that nobody thought of: each mistake named, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gelu_deploy.cli import main

MISUSE = """
exprot model.pt
export
export -o
export weights.pt extra
export weights.pt --bogus
export weights.pt --form gelu
export weights.pt --form erf --form tanh
run done.onnx
export ''
export weight.pt
export a/b.pt
export bare.py:
export bare.py:Net.x
inspect none.onnx
inspect empty.onnx
inspect text.onnx
inspect page.onnx
inspect lfs.onnx
inspect cut.onnx
inspect random.onnx
inspect weights.pt
inspect folder
inspect flipped.onnx
check lfs.onnx
check folder
check foreign.onnx
check done.onnx --atol logits:1e-3
check done.onnx --against none.pt
run weights.pt --data x.npz
run empty.onnx --data x.npz
run done.onnx --data none.npz
run done.onnx --data weights.pt
run done.onnx --data text.onnx
run done.onnx --data empty.onnx
run done.onnx --data y.npz
run done.onnx --data wide.npz
run done.onnx --data x.npz -o y
export weights.pt
export script.pt
export script.pt --trust-code --exporter none
export weights.pt --arch bare.py
export weights.pt --arch bare.py:Nett
export weights.pt --arch bare.py:boom
export weights.pt --arch bare.py:not_a_network
export weights.pt --arch bare.py:number
export weights.pt --arch bare.py:Net
export weights.pt --arch bare.py:Net --arch-arg depth=2
export weights.pt --arch bare.py:Net --arch-arg depth=1 --arch-arg depth=2
export nets.py:Net --arch nets.py:Net
export bare.py:Two --input x:2x8
export bare.py:Any
export bare.py:Net --input x
export bare.py:Net --input z:2x8
export bare.py:Net --input x:2x9
export bare.py:Net --input x:0x8
export bare.py:Net --input x:2x8 --input x:3x8
export bare.py:Net --data x.npy
export bare.py:Net --data empty.onnx
export bare.py:Net --data weights.pt
export bare.py:Net --data objects.npz
export bare.py:Net --data y.npz
export bare.py:Nothing --input x:2x8
export bare.py:NotANumber --input x:2x8
export nets.py:Net --atol logits:1e-3
export nets.py:Net --atol 1 --atol 2
export nets.py:Net --atol -1
export nets.py:Net --max-form-error nan
export nets.py:Net --opset 0
export nets.py:Net --provider cpux
export nets.py:Net --provider XpuExecutionProvider
export nets.py:Net --exporter none
export nets.py:Net --exporter nets.py:number
export nets.py:Net --output-names x
export nets.py:Net --output-names a --output-names b
export nets.py:Net --output-names ''
export nets.py:Net --dynamic x:1=a-b
export nets.py:Net -o ''
export nets.py:Net -o none/model.onnx
export nets.py:Net -o folder.onnx/
export nets.py:Net -o weights.pt/model.onnx
export nets.py:Net -o done.onnx
export nets.py:Net -o model
export done.onnx
export done.onnx -o other.onnx --exporter torchscript --no-batch
export strings.onnx -o other.onnx
quantize
quantize done.onnx
quantize done.onnx --calib-data
quantize done.onnx --calib-data x.npz --random-calibration
quantize none.onnx --calib-data x.npz
quantize weights.pt --calib-data x.npz
quantize foreign.onnx --calib-data x.npz
quantize flipped.onnx --calib-data x.npz
quantize strings.onnx --calib-data x.npz
quantize int8.onnx --calib-data x.npz
quantize done.onnx --calib-data none.npz
quantize done.onnx --calib-data y.npz
quantize done.onnx --calib-data wide.npz
quantize done.onnx --calib-data double.npz
quantize done.onnx --calib-data nan.npz
quantize done.onnx --calib-data folder
quantize done.onnx --calib-data text.onnx
quantize done.onnx --calib-data bare.py:boom
quantize done.onnx --calib-data x.npz --data y.npz
quantize done.onnx --calib-data x.npz --batch 0
quantize done.onnx --calib-data x.npz --precision int4
quantize done.onnx --calib-data x.npz --target-cpu m1
quantize done.onnx --calib-data x.npz --max-drop lots
quantize done.onnx --calib-data x.npz --max-drop 1% --precision w8
quantize done.onnx --calib-data x.npz --max-drop 1% --time-budget 0
quantize done.onnx --calib-data x.npz -o int8
quantize done.onnx --calib-data x.npz -o none/int8.onnx
quantize done.onnx --calib-data x.npz -o foreign.onnx
quantize done.onnx --calib-data x.npz -o done.onnx --overwrite
quantize done.onnx --calib-data x.npz --json x.npz
export nets.py:Net --json none/report.json
export done.onnx -o other.onnx --json done.onnx
"""


def _words(line: str) -> list[str]:
    return ["" if word == "''" else word for word in line.split()]


def test_every_mistake_is_named(folder: Path, typed: Any, golden: Callable[[str, str], None]) -> None:
    before, told = sorted(folder.rglob("*")), []
    for line in MISUSE.strip().splitlines():
        code, out, err = typed(*_words(line))
        assert (out, err.count("gelu-deploy: ")) == ("", 1), line
        assert "Traceback" not in err, line
        assert code in {2, 3, 4, 7}, line
        told.append(f"$ {line}\n{code} {err.replace(f'{folder}', 'HERE')}")
    assert [path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts] == [
        path for path in before if "__pycache__" not in path.parts
    ]
    text = re.sub(r"\d+(?= bytes|( of at least))", "SOME", "\n".join(told))
    golden("newcomer.txt", re.sub(r"\d+ \(the last that onnx \d\S*", "NEWEST (the last that onnx VERSION", text))


def test_unusual_names_are_names(folder: Path, typed: Any) -> None:
    for name in ("we ird 'q' \"d\" \N{GRINNING FACE}.onnx", "-dash.onnx", "new\nline.onnx"):
        (folder / name).write_bytes((folder / "foreign.onnx").read_bytes())
        code, out, err = typed("inspect", "--", name)
        assert (code, out.splitlines()[-1], err) == (0, "3 GELU sites, 3 of them one kernel", "")
        (folder / name).unlink()


def test_outputs_may_be_called_like_inputs_and_operators(typed: Any) -> None:
    for exporter in ("dynamo", "torchscript"):
        code, out, _ = typed("export", "nets.py:Named", "--dry-run", "--json", "-", "--exporter", exporter)
        assert (code, list(json.loads(out)["outputs"])) == (0, ["x_out", "linear", "mean"])


def test_a_trace_that_went_one_way_says_so(typed: Any) -> None:
    code, out, err = typed("export", "nets.py:Branches", "--dry-run")
    shown = " ".join(out.split())
    assert (code, err) == (0, "")
    assert "exported with torchscript instead" in shown
    assert re.search(r"went one way where a tensor decides what forward does \(nets\.py:\d+\)", shown)
    assert shown.endswith("pass: nothing written, as --dry-run says")


def test_what_was_asked_for_in_vain_is_said(typed: Any) -> None:
    code, out, _ = typed("export", "nets.py:Any", "--input", "q:2x8", "--exclude", "blocks.*", "--dry-run")
    assert code == 0
    assert "--exclude blocks.* matches no GELU; their modules are (root)" in out
    assert "no file of weights: the weights are as the code makes them" in out


def test_check_takes_the_golden_data_as_examples(typed: Any) -> None:
    code, out, _ = typed("check", "done.onnx", "--against", "bare.py:Net")
    assert (code, "(from the golden data)" in out) == (0, True)


def test_a_gelu_of_a_gelu_is_written_anew_too(typed: Any) -> None:
    code, out, _ = typed("export", "foreign.onnx", "-o", "o.onnx", "--dry-run", "--spelling", "contrib", "--json", "-")
    assert code == 0
    assert {site["output"]: site["kernels"] for site in json.loads(out)["sites"]} == {
        "a": ["Gelu"],
        "b": ["FastGelu"],
        "y": ["Gelu"],
    }


def test_random_examples_are_the_same_ones_each_time(typed: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert typed("export", "nets.py:Net", "-o", str(tmp_path / name / "m.onnx"))[0] == 7  # its folder is missing
        (tmp_path / name).mkdir()
        assert typed("export", "nets.py:Net", "-o", str(tmp_path / name / "m.onnx"))[0] == 0
    assert {file.name: file.read_bytes() for file in (tmp_path / "a").glob("m*.[no]*")} == {
        file.name: file.read_bytes() for file in (tmp_path / "b").glob("m*.[no]*")
    }


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("words", [["nets.py:Interrupted"], ["nets.py:Net", "--exporter", "nets.py:interrupted"]])
def test_a_signal_leaves_the_old_file_and_nothing_else(
    folder: Path, typed: Any, monkeypatch: pytest.MonkeyPatch, name: str, code: int, words: list[str]
) -> None:
    monkeypatch.setenv("NEWCOMER_SIGNAL", name)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    assert typed("export", *words, "-o", "done.onnx", "--overwrite")[0] == code
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_while_calibrating_leaves_what_was_there(
    folder: Path, typed: Any, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    monkeypatch.setenv("NEWCOMER_SIGNAL", name)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    words = ["done.onnx", "--calib-data", "nets.py:interrupting", "-o", "int8.onnx", "--overwrite"]
    assert typed("quantize", *words)[0] == code
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()} == before


def test_quantize_says_its_verdict_last_and_in_its_exit_code(folder: Path, typed: Any) -> None:
    before = sorted(folder.iterdir())
    words = ["quantize", "done.onnx", "--calib-data", "x.npz", "--no-tune", "--dry-run"]
    code, out, err = typed(*words)
    assert (code, err, out.splitlines()[-1]) == (0, "", "pass: nothing written, as --dry-run says")
    code, out, err = typed(*words, "--json", "-", "--exclude", "*")
    assert (code, err, json.loads(out)["reason"]) == (1, "", "not one layer runs in integers")
    assert sorted(folder.iterdir()) == before


def test_two_at_once_for_one_output(folder: Path) -> None:
    command = [sys.executable, "-m", "gelu_deploy", "export", "foreign.onnx", "-o", "race.onnx"]
    both = [subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in "ab"]
    assert sorted(one.wait(timeout=60) for one in both) in ([0, 0], [0, 7])  # the second may come after the first
    assert {path.name for path in folder.iterdir() if "race" in path.name and path.suffix != ".npz"} == {
        "race.onnx",
        "race.report.json",
    }
    assert main(["check", str(folder / "race.onnx")]) == 0
    for path in folder.glob("race*"):
        path.unlink()


@pytest.mark.parametrize("words", [["--help"], ["inspect", "foreign.onnx"], ["inspect", "foreign.onnx", "--json", "-"]])
def test_a_reader_that_left_and_a_full_disk(folder: Path, words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gelu_deploy", *words]
    with open(writing, "wb") as gone, Path("/dev/full").open("wb") as full:  # noqa: PTH123  # a descriptor is no path
        to_nobody = subprocess.run(command, cwd=folder, stdout=gone, stderr=subprocess.PIPE, check=False)
        to_full = subprocess.run(command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (to_nobody.returncode, to_nobody.stderr) == (0, b"")
    assert to_full.returncode == 7
    assert to_full.stderr.startswith("gelu-deploy: The result cannot be written to standard output: No space left")

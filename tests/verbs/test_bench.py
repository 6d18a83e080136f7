"""``bench``: files in turns, what it is told, and what it refuses before anything is timed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser
from rich.console import Console

import gelu_deploy
from gelu_deploy.cli import main, tables
from gelu_deploy.comparison import latency
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.timing.interleaved import Timing, Variant

TEXT = """<ir_version: 9, opset_import: ["": 20]>
network (float[{rows}, 8] {name}) => (float[{rows}, 8] y)
{{ y = Gelu <approximate = "{form}"> ({name}) }}"""


def model(path: Path, *, rows: str = "n", name: str = "x", form: str = "none") -> str:
    ir.save(ir.from_proto(parser.parse_model(TEXT.format(rows=rows, name=name, form=form))), path)
    return str(path)


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """No time passes: what each file would have been fed, the second taking half of the first's time."""
    seen = list[dict[str, Any]]()

    def timed(variants: list[Variant], feeds: dict[str, Any], *, rounds: int, runs: int, **more: Any) -> list[Timing]:
        seen.append({"feeds": feeds, "variants": variants, **more})
        return [Timing(one.name, ((4.0 / n,) * runs,) * rounds, {}, 3000, 0) for n, one in enumerate(variants, 1)]

    monkeypatch.setattr(latency, "timed", timed)
    return seen


def test_files_are_timed_in_processes_of_their_own(tmp_path: Path) -> None:
    erf, tanh = model(tmp_path / "erf.onnx"), model(tmp_path / "tanh.onnx", form="tanh")
    result = gelu_deploy.bench(erf, tanh, duration=0.5)
    one, other = result["files"]
    assert (one["name"], one["form"], other["form"]) == (erf, "erf", "tanh")
    assert (one["kernels"], other["kernels"]) == ({"Gelu": 1}, {"Gelu": 1})
    assert (one["placement"], one["integer_share"], one["precision"]) == ({"CPUExecutionProvider": 1}, 0.0, "float")
    assert one["latency"]["ratio"]["value"] == 1.0
    assert 0 < one["latency"]["p50"] <= one["latency"]["p90"] <= one["latency"]["p99"]
    assert one["memory"] > 1e6
    assert one["bytes"] == Path(erf).stat().st_size
    assert result["inputs"] == {"x": "1x8:float32"}


def test_times_are_in_relation_to_the_first_and_a_file_may_come_twice(
    tmp_path: Path, fed: list[dict[str, Any]]
) -> None:
    erf = model(tmp_path / "erf.onnx")
    result = gelu_deploy.bench(erf, erf, batch=4, duration=14.0)
    assert [one["name"] for one in result["files"]] == [erf, f"{erf} (2)"]
    assert result["files"][1]["latency"]["ratio"] == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert [one["rows_per_second"] for one in result["files"]] == [1000.0, 2000.0]
    assert fed[0]["seconds"] == 1.0  # of each turn: seven rounds of two files
    shown = Console(file=io.StringIO(), width=60, force_terminal=False)
    for part in tables.render(result):
        shown.print(part)
    told = shown.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO
    assert max(map(len, told.splitlines())) <= 60
    assert "…" not in told


def test_inputs_come_from_data_from_words_or_are_found(tmp_path: Path, fed: list[dict[str, Any]]) -> None:
    free, fixed = model(tmp_path / "free.onnx"), model(tmp_path / "fixed.onnx", rows="3")
    rows = np.arange(48, dtype=np.float32).reshape(6, 8)
    np.savez(tmp_path / "rows.npz", x=rows)
    data = str(tmp_path / "rows.npz")
    gelu_deploy.bench(free)
    gelu_deploy.bench(free, input="x:5x8:float32")
    gelu_deploy.bench(free, data=data, batch=2)
    gelu_deploy.bench(fixed, data=data)
    assert [one["feeds"]["x"].shape for one in fed] == [(1, 8), (5, 8), (2, 8), (3, 8)]
    np.testing.assert_array_equal(fed[2]["feeds"]["x"], rows[:2])


def test_a_single_input_may_have_another_name(tmp_path: Path, fed: list[dict[str, Any]]) -> None:
    gelu_deploy.bench(model(tmp_path / "a.onnx"), model(tmp_path / "b.onnx", name="other"))
    assert fed[0]["variants"][1].arguments["names"] == {"x": "other"}


def test_what_cannot_be_meant_is_refused_before_anything_is_timed(tmp_path: Path, fed: list[dict[str, Any]]) -> None:
    free, fixed = model(tmp_path / "free.onnx"), model(tmp_path / "fixed.onnx", rows="3")
    with pytest.raises(UsageError, match="no file was given"):
        gelu_deploy.bench()
    with pytest.raises(UsageError, match="--duration 0"):
        gelu_deploy.bench(free, duration=0.0)
    with pytest.raises(UsageError, match="--batch 0: expected"):
        gelu_deploy.bench(free, batch=0)
    with pytest.raises(UsageError, match="takes batches of 3 and no others"):
        gelu_deploy.bench(fixed, batch=2)
    with pytest.raises(UsageError, match="leave one of them out"):
        gelu_deploy.bench(free, data="x.npz", input="x:1x8:float32")
    with pytest.raises(ModelError, match=r"nothing\.onnx: no such file"):
        gelu_deploy.bench(free, "nothing.onnx")
    assert not fed


def test_the_command_takes_several_files_and_harms_none(
    tmp_path: Path, fed: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = model(tmp_path / "one.onnx"), model(tmp_path / "other.onnx")
    assert main(["bench", one, other, "--duration", "2", "--json", "-"]) == 0
    assert f'"name": "{other}"' in capsys.readouterr().out
    assert main(["bench", one, other, "--json", other]) == 7
    assert "reads or writes that file itself" in capsys.readouterr().err
    assert main(["bench"]) == 2
    assert len(fed) == 1

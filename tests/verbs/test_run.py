"""``run``: arrays from a file in, outputs to a file, and every mistake told."""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from gelu_deploy.errors import ModelError, OutputError, UsageError
from gelu_deploy.options import RunOptions
from gelu_deploy.verbs.run import run

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
SUM = f"""{HEAD} g (float[N, 2] a, float[N, 2] b) => (float[N, 2] total, bool[N, 2] same)
{{ total = Add(a, b) same = Equal(a, b) }}"""
A = np.arange(6, dtype=np.float32).reshape(3, 2)


def save(path: Path, text: str = SUM) -> str:
    ir.save(ir.from_onnx_text(text), path)
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return save(tmp_path / "model.onnx")


@pytest.fixture
def data(tmp_path: Path) -> str:
    np.savez(tmp_path / "data.npz", a=A, b=np.asfortranarray(A).astype(">f4"), labels=np.arange(3))
    return str(tmp_path / "data.npz")


def test_the_outputs_are_described_and_written(model: str, data: str, tmp_path: Path) -> None:
    result = run(model, RunOptions(data=data, output=str(tmp_path / "y.npz")))
    assert result["files"] == [str(tmp_path / "y.npz")]
    assert (result["schema"], result["provider"]) == ("gelu-deploy/run/1", "cpu")
    assert result["seconds"] > 0
    total, same = result["outputs"]
    assert total == {"name": "total", "shape": [3, 2], "dtype": "float32", "minimum": 0.0, "maximum": 10.0}
    assert (same["name"], same["dtype"], same["minimum"], same["maximum"]) == ("same", "bool", 1.0, 1.0)
    with np.load(tmp_path / "y.npz") as written:
        assert written.files == ["total", "same"]
        np.testing.assert_array_equal(written["total"], 2 * A)


def test_nothing_is_written_unless_asked(model: str, data: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    assert run(model, RunOptions(data=data))["files"] == []
    assert sorted(tmp_path.iterdir()) == before


def test_an_existing_output_is_kept_without_overwrite(model: str, data: str, tmp_path: Path) -> None:
    output = tmp_path / "y.npz"
    output.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        run(model, RunOptions(data=data, output=str(output)))
    assert output.read_text() == "mine"
    run(model, RunOptions(data=data, output=str(output), overwrite=True))
    with np.load(output) as written:
        np.testing.assert_array_equal(written["total"], 2 * A)


def test_the_output_is_looked_at_before_the_model(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        run("none.onnx", RunOptions(data="none.npz", output=str(tmp_path / "none" / "y.npz")))


def test_a_missing_input_names_what_the_file_has(model: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", a=A, labels=A)
    with pytest.raises(UsageError, match="has no array 'b', an input of the model; it has 'a', 'labels'"):
        run(model, RunOptions(data=str(tmp_path / "data.npz")))


def test_an_input_that_does_not_fit_is_told(model: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", a=A.astype(np.float64), b=A)
    with pytest.raises(UsageError, match="Input 'a' came as float64, expected float32"):
        run(model, RunOptions(data=str(tmp_path / "data.npz")))


def test_one_array_is_enough_for_one_input(tmp_path: Path, model: str) -> None:
    np.save(tmp_path / "x.npy", A)
    one = save(tmp_path / "one.onnx", f"{HEAD} g (float[N, 2] x) => (float[N, 2] file) {{ file = Neg(x) }}")
    run(one, RunOptions(data=str(tmp_path / "x.npy"), output=str(tmp_path / "y.npz")))
    with np.load(tmp_path / "y.npz") as written:
        np.testing.assert_array_equal(written["file"], -A)
    with pytest.raises(UsageError, match="is one array, but the model's inputs are 'a', 'b'"):
        run(model, RunOptions(data=str(tmp_path / "x.npy")))


def test_bfloat16_goes_in_by_its_width_and_out_as_float32(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.array([1.5, -2], ml_dtypes.bfloat16))
    model = save(tmp_path / "bf16.onnx", f"{HEAD} g (bfloat16[N] x) => (bfloat16[N] y) {{ y = Identity(x) }}")
    result = run(model, RunOptions(data=str(tmp_path / "data.npz"), output=str(tmp_path / "y.npz")))
    assert result["outputs"][0] == {"name": "y", "shape": [2], "dtype": "float32", "minimum": -2.0, "maximum": 1.5}
    with np.load(tmp_path / "y.npz") as written:
        np.testing.assert_array_equal(written["y"], np.array([1.5, -2], np.float32))


def test_strings_and_nothing_have_no_range(tmp_path: Path) -> None:
    text = f"{HEAD} g (string[N] x, float[M] e) => (string[N] y, float[M] f) {{ y = Identity(x) f = Neg(e) }}"
    np.savez(tmp_path / "data.npz", x=np.array(["a", "bc"]), e=np.zeros(0, np.float32))
    options = RunOptions(data=str(tmp_path / "data.npz"), output=str(tmp_path / "y.npz"))
    outputs = run(save(tmp_path / "text.onnx", text), options)["outputs"]
    assert all(math.isnan(output["minimum"]) and math.isnan(output["maximum"]) for output in outputs)
    with np.load(tmp_path / "y.npz") as written:
        assert written["y"].tolist() == ["a", "bc"]


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 cut off", b"\x93NUMPY\x01\x00cut"])
def test_data_of_no_such_kind_are_refused(model: str, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"data\.npz is no \.npz or \.npy file"):
        run(model, RunOptions(data=str(tmp_path / "data.npz")))


def test_a_pickle_among_the_data_is_not_opened(model: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", a=np.array([{}], dtype=object), b=A)
    with pytest.raises(UsageError, match=r"no \.npz or \.npy file of plain arrays"):
        run(model, RunOptions(data=str(tmp_path / "data.npz")))


def test_files_that_are_not_there_are_named(model: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.npz cannot be read: No such file"):
        run(model, RunOptions(data=str(tmp_path / "none.npz")))
    with pytest.raises(ModelError, match=r"none\.onnx: no such file"):
        run(str(tmp_path / "none.onnx"), RunOptions(data=str(tmp_path / "none.npz")))

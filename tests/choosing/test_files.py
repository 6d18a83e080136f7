"""Variants of one model on disk: weights once, whatever shares them; each file runs by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from graphs import Expression, model, op

from gelu_deploy import artifact, runtime
from gelu_deploy.choosing.files import WEIGHTS, Shelf
from gelu_deploy.errors import OutputError

WIDE = np.random.default_rng(0).normal(size=(8, 256)).astype(np.float32)
CONV = np.random.default_rng(1).normal(size=(64, 4, 2)).astype(np.float32)
X = np.ones((1, 4, 8), np.float32)


def dense(x: Expression) -> Expression:
    return op("MatMul", op("Gelu", x), WIDE)


def test_a_weight_that_two_variants_have_is_written_once_and_both_run(tmp_path: Path) -> None:
    shelf, answers = Shelf(tmp_path), []
    for name, formula in {"a.onnx": dense, "b.onnx": lambda x: -dense(x)}.items():
        file = shelf.write(name, model(formula))
        assert file.stat().st_size < WIDE.nbytes / 8
        answers.append(runtime.evaluate(file, {"x": X}, optimise=True)["y"])
    assert (tmp_path / WEIGHTS).stat().st_size == WIDE.nbytes
    np.testing.assert_array_equal(answers[0], -answers[1])


def test_another_weight_is_appended_and_small_ones_stay_in_the_graph(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.write("a.onnx", model(dense))
    made = model(lambda x: op("Conv", x, CONV[:, :, :1]))  # 1 kB
    both = model(lambda x: op("Gelu", op("MatMul", x, 2 * WIDE)))
    wanted = runtime.evaluate(both, {"x": X}, optimise=False)["y"]
    small, other = shelf.write("small.onnx", made), shelf.write("b.onnx", both)
    assert (tmp_path / WEIGHTS).stat().st_size == 2 * WIDE.nbytes
    assert not [v for v in ir.load(small).graph.initializers.values() if isinstance(v.const_value, ir.ExternalTensor)]
    np.testing.assert_array_equal(runtime.evaluate(other, {"x": X}, optimise=False)["y"], wanted)


def test_what_lasts_is_read_once(tmp_path: Path) -> None:
    class Counted(ir.Tensor[Any]):
        read = 0

        def tobytes(self) -> bytes:
            Counted.read += 1
            return super().tobytes()

    first, second = model(dense), model(dense)
    tensor = Counted(WIDE, name="w")
    for one in (first, second):
        (value,) = (
            v for v in one.graph.initializers.values() if v.const_value is not None and v.const_value.nbytes > 99
        )
        value.const_value = tensor
    shelf = Shelf(tmp_path, [tensor])
    shelf.write("a.onnx", first)
    file = shelf.write("b.onnx", second)
    assert Counted.read == 1
    wanted = runtime.evaluate(model(dense), {"x": X}, optimise=False)["y"]
    np.testing.assert_array_equal(runtime.evaluate(file, {"x": X}, optimise=False)["y"], wanted)


def test_what_a_file_of_ours_says_of_itself_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ours.onnx"
    with artifact.stage(path) as stage:
        stage.write(model(dense), {"note": "sealed"})
        stage.publish({})
    read = ir.load(path)
    assert read.metadata_props
    file = Shelf(tmp_path).write("a.onnx", read)
    assert not ir.load(file).metadata_props
    assert runtime.Session(file).inputs


def test_a_full_disk_is_an_error_of_the_output(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        Shelf(tmp_path / "nowhere").write("a.onnx", model(dense))

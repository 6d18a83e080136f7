"""An ONNX file as the original: sizes and values found by trying, or taken from what was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import gelu_deploy
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.originals.inputs import Wanted
from gelu_deploy.originals.onnx_file import OnnxOriginal

HEAD = '<ir_version: 8, opset_import: ["": 17]> g'
PLAIN = "(float[N, 4] x) => (float[N, 4] y) { y = Erf(x) }"
TWO = "(float[N, 4] a, float[N, M] b) => (float[N, P] y) { y = Concat<axis=1>(a, b) }"
TABLE = """
    (int64[N, T] ids, int32[N, T] kinds) => (float[N, T, 2] y)
    <float[5, 2] words = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3, 2] names = {0, 1, 2, 3, 4, 5}>
    { a = Gather(words, ids) c = Cast<to=7>(kinds) b = Gather(names, c) y = Add(a, b) }
"""
ONE_HOT = """
    (int32[N, 6] x) => (float[N, 6, 7] y) <int32[7] codes = {0, 1, 2, 3, 4, 5, 6}>
    { axes = Constant<value_ints=[-1]>() u = Unsqueeze(x, axes) e = Equal(u, codes) y = Cast<to=1>(e) }
"""


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    def build(text: str, given: dict[str, Any] | None = None, **wanted: Wanted) -> OnnxOriginal:
        path = tmp_path / "m.onnx"
        onnx.save(parser.parse_model(f"{HEAD} {text}"), path)
        return OnnxOriginal(str(path), given or {}, wanted)

    return build


def multiple(tmp_path: Path, of: int) -> str:
    """A network that halves and doubles an image, as detectors do: it runs at multiples of ``of`` only."""
    shape = helper.make_tensor("shape", onnx.TensorProto.INT64, [4], [0, 0, -1, of])
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Erf", ["r"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, 1, "W"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 3, "H", of])],
        [shape],
    )
    path = tmp_path / "multiple.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def shapes(original: OnnxOriginal) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in original.examples.items()}


def test_free_axes_keep_the_files_names_and_the_first_is_the_batch(opened: Any) -> None:
    original = opened(TWO)
    assert original.axes == {"a": {0: "batch"}, "b": {0: "batch", 1: "M"}}
    assert original.output_names == ["y"]
    assert shapes(original) == {"a": (2, 4), "b": (2, 16)}
    assert original.notes == ["inputs: a 2x4:float32, b 2x16:float32 (found by trying; seeded random values)"]


def test_sizes_are_tried_until_the_file_runs(tmp_path: Path) -> None:
    original = OnnxOriginal(multiple(tmp_path, 32), {}, {})
    assert shapes(original) == {"x": (2, 3, 1, 32)}
    result = gelu_deploy.export(multiple(tmp_path, 32), output=str(tmp_path / "out.onnx"))
    assert result["verdict"] == "pass"
    assert sorted({case["x"] for case in result["cases"]}) == [
        "1x3x1x32:float32",
        "2x3x1x32:float32",
        "2x3x1x64:float32",
        "3x3x1x32:float32",
    ]


def test_where_no_size_runs_it_says_what_to_give(tmp_path: Path) -> None:
    path = multiple(tmp_path, 1000)
    with pytest.raises(ModelError, match=r"ran at none of the sizes tried .*16, 32, 8.*--input NAME:SHAPE:DTYPE"):
        OnnxOriginal(path, {}, {})
    assert shapes(OnnxOriginal(path, {}, {"x": Wanted((1, 3, 1, 1000), "float32")})) == {"x": (1, 3, 1, 1000)}


def test_integers_stay_inside_the_table_that_they_index(opened: Any) -> None:
    original = opened(TABLE)
    ids, kinds = original.examples["ids"], original.examples["kinds"]
    assert (ids.dtype, kinds.dtype) == (np.int64, np.int32)
    assert set(ids.reshape(-1)) == set(range(5))
    assert set(kinds.reshape(-1)) == set(range(3))


def test_integers_stay_inside_a_one_hot_code(opened: Any) -> None:
    original = opened(ONE_HOT)
    assert 4 < original.examples["x"].max() < 7
    assert (original.run(original.examples)["y"].sum(-1) == 1).all()


def test_integers_and_bools_without_a_table_are_noughts_and_ones(opened: Any) -> None:
    original = opened("(int64[N, 9] i, bool[N, 9] b) => (int64[N, 9] y) { c = Cast<to=7>(b) y = Add(i, c) }")
    assert set(original.examples["i"].reshape(-1)) == {0, 1}
    assert set(original.examples["b"].reshape(-1)) == {False, True}


def test_what_is_given_is_used_two_rows_of_it_and_the_rest_ignored_with_a_note(opened: Any) -> None:
    x = np.arange(40, dtype=np.float32).reshape(10, 4)
    original = opened(PLAIN, {"x": x, "labels": np.arange(10), "ages": np.arange(10)})
    np.testing.assert_array_equal(original.examples["x"], x[:2])
    assert original.notes == ["not inputs, ignored in --data: ages, labels", "inputs: x 2x4:float32"]


def test_rows_of_a_fixed_axis_are_all_needed(opened: Any) -> None:
    x = np.ones((3, 4), np.float32)
    original = opened("(float[3, N] x) => (float[3, N] y) { y = Erf(x) }", {"x": x})
    assert shapes(original) == {"x": (3, 4)}


def test_one_of_two_inputs_said_decides_the_axes_that_both_have(opened: Any) -> None:
    original = opened(TWO, b=Wanted((5, 7), "float32"))
    assert shapes(original) == {"a": (5, 4), "b": (5, 7)}
    original = opened(TWO, {"b": np.ones((3, 7), np.float32)})
    assert shapes(original) == {"a": (2, 4), "b": (2, 7)}
    original = opened(TWO, {"b": np.ones((1, 7), np.float32)})
    assert shapes(original) == {"a": (1, 4), "b": (1, 7)}


def test_given_and_said_together(opened: Any) -> None:
    original = opened(TWO, {"a": np.ones((2, 4), np.float32)}, b=Wanted((2, 3), "float32"))
    assert shapes(original) == {"a": (2, 4), "b": (2, 3)}
    assert (original.examples["a"] == 1).all()


def test_names_that_are_no_inputs(opened: Any) -> None:
    with pytest.raises(UsageError, match="there is no input z; the inputs are x"):
        opened(PLAIN, z=Wanted((2, 4), "float32"))
    with pytest.raises(UsageError, match="there is no input images, labels; the inputs are x"):
        opened(PLAIN, {"labels": np.ones(2), "images": np.ones(2)})


def test_another_type_than_the_files_is_told(opened: Any) -> None:
    with pytest.raises(UsageError, match=r"float16 was asked for and the file takes float32; say x:2x4:float32"):
        opened(PLAIN, x=Wanted((2, 4), "float16"))
    with pytest.raises(UsageError, match=r"say ids:2x4:int64"):
        opened(TABLE, ids=Wanted((2, 4), "float32"))
    with pytest.raises(UsageError, match=r"'x' came as float64, expected float32"):
        opened(PLAIN, {"x": np.ones((2, 4))})


def test_another_shape_than_the_files_is_told(opened: Any) -> None:
    with pytest.raises(UsageError, match="axis 1 must be 4, not 5"):
        opened(PLAIN, x=Wanted((2, 5), "float32"))
    with pytest.raises(UsageError, match="2 axes, not 3"):
        opened(PLAIN, {"x": np.ones((2, 4, 1), np.float32)})


def test_a_file_of_fixed_shapes_needs_nothing(opened: Any) -> None:
    original = opened("(float[2, 4] x) => (float[2, 4] y) { y = Erf(x) }")
    assert original.axes == {"x": {}}
    assert shapes(original) == {"x": (2, 4)}


def test_initializers_that_are_inputs_too_are_no_inputs(opened: Any) -> None:
    original = opened("(float[N, 4] x, float[4] w) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }")
    assert list(original.examples) == ["x"]
    x = original.examples["x"]
    np.testing.assert_array_equal(original.run({"x": x})["y"], x * np.array([1, 2, 3, 4], np.float32))


def test_inputs_that_the_file_refuses_are_a_model_error(opened: Any) -> None:
    original = opened(TABLE)
    with pytest.raises(ModelError, match="The model fails on these inputs"):
        original.run({"ids": np.full((2, 2), 99), "kinds": np.zeros((2, 2), np.int32)})


def test_weights_in_another_file_go_into_the_new_one(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 64])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    for threshold, files in ((1e9, 0), (100.0, 1)):
        result = gelu_deploy.export(
            str(tmp_path / "m.onnx"),
            output=str(tmp_path / f"{files}.onnx"),
            external_data_threshold=threshold,
        )
        assert result["verdict"] == "pass"
        assert sum(name.endswith(".data") for name in result["files"]) == files
        x = np.ones((1, 64), np.float32)
        np.testing.assert_allclose(
            gelu_deploy.Session(tmp_path / f"{files}.onnx")({"x": x})["y"], x @ weight, rtol=1e-5, atol=1e-5
        )

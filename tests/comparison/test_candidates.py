"""Variants that are run and timed under the names of the model, whatever theirs are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from graphs import model, op
from quantize_networks import Builder, feeds, ffn, ranges

from gelu_deploy.arrays import Arrays
from gelu_deploy.artifact import stage
from gelu_deploy.comparison.candidates import Candidate, Ends, form_of, precision_of, renaming, under
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.errors import UsageError
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.network import Recipe
from gelu_deploy.runtime.feeds import Spec
from gelu_deploy.timing.interleaved import timed


def ends(outputs: int = 1, **shapes: tuple[int | str, ...]) -> Ends:
    specs = {name: Spec(name, shape, "float32") for name, shape in shapes.items()}
    return Ends(specs, tuple(f"y{place}" for place in range(outputs)))


def saved(path: Path, name: str = "pixels") -> Path:
    """twice = 2 · NAME, for NAME of shape (n, 3); sealed, with settings that are stored."""
    make = Builder()
    value = ir.val(name, ir.DataType.FLOAT, ("n", 3))
    twice = make.model([value], make.op("twice", "Mul", value, make.weight("two", np.full(1, 2.0))))
    with stage(path) as staged:
        staged.write(twice, {"runtime": {"spinning": False}})
        staged.publish({})
    return path


def test_inputs_are_matched_by_name_and_a_single_one_by_being_alone() -> None:
    own = ends(a=("n", 3), b=("n", 4))
    assert own.names_in(ends(b=("m", 4), a=("m", "k")), "t.onnx") == {"a": "a", "b": "b"}
    assert ends(x=("n", 3)).names_in(ends(pixels=(1, 3)), "t.onnx") == {"x": "pixels"}


@pytest.mark.parametrize(
    "other",
    [
        ends(pixels=("n", 4)),
        ends(pixels=("n", 3, 3)),
        ends(x=("n", 3), mask=("n", 3)),
        ends(outputs=2, x=("n", 3)),
        Ends({"x": Spec("x", ("n", 3), "float64")}, ("y",)),
    ],
)
def test_other_ends_are_refused_in_words(other: Ends) -> None:
    with pytest.raises(UsageError) as error:
        ends(x=("n", 3)).names_in(other, "t.onnx")
    assert str(error.value).startswith(f"t.onnx takes {other}; the model takes x n x 3:float32, and gives 1 output.")


def test_two_inputs_with_other_names_are_not_guessed() -> None:
    with pytest.raises(UsageError, match="Only files with the same ends"):
        ends(a=("n",), b=("n",)).names_in(ends(a=("n",), c=("n",)), "t.onnx")


def test_answers_come_under_the_names_of_the_model_in_order() -> None:
    def run(feeds: Arrays) -> Arrays:
        return {"first": feeds["pixels"] + 1, "second": feeds["pixels"] + 2}

    got = renaming(run, {"x": "pixels"}, ends(outputs=2, x=("n",)))({"x": np.zeros(1)})
    assert {name: float(array[0]) for name, array in got.items()} == {"y0": 1.0, "y1": 2.0}
    swapped = renaming(lambda feeds: {"y1": feeds["x"], "y0": feeds["x"] - 1}, {}, ends(outputs=2, x=("n",)))
    assert {name: float(array[0]) for name, array in swapped({"x": np.zeros(1)}).items()} == {"y0": -1.0, "y1": 0.0}


def test_data_are_read_again_under_other_names_each_time() -> None:
    data = Dataset("d", lambda: [Batch({"x": np.arange(3)}, np.arange(3))], divisible=True)
    renamed = under(data, {"x": "pixels"})
    for _ in range(2):
        (batch,) = renamed
        assert list(batch.inputs) == ["pixels"]
        assert batch.labels is not None
    assert (renamed.name, renamed.divisible) == ("d", True)


def test_a_file_is_opened_and_timed_with_its_settings_and_the_model_s_names(tmp_path: Path) -> None:
    one = Candidate("int8", "twin", "", "int8", path=saved(tmp_path / "m.onnx"), names={"x": "pixels"})
    feeds = {"x": np.ones((2, 3), np.float32)}
    with one.opened(ends(x=("n", 3)), "cpu") as run:
        assert run(feeds)["y0"].tolist() == np.full((2, 3), 2.0).tolist()
    variant = one.timed("cpu")
    assert variant is not None
    assert variant.arguments["settings"]["spinning"] is False
    (timing,) = timed([variant], feeds, rounds=1, runs=1)
    assert next(iter(timing.answers.values())).tolist() == np.full((2, 3), 2.0).tolist()


def test_what_is_run_in_this_process_only_is_not_timed() -> None:
    one = Candidate("PyTorch", "model", "erf", "pytorch", original=lambda feeds: {"y": feeds["x"]})
    assert one.timed("cpu") is None
    with one.opened(ends(x=("n",)), "cpu") as run:
        assert list(run({"x": np.zeros(1)})) == ["y0"]


@pytest.mark.parametrize(
    ("family", "precision", "may"),
    [("model", "int8", True), ("also", "w8", True), ("model", "float", False), ("also", "float", False),
     ("twin", "int8", False), ("model", "pytorch", False)],
)  # fmt: skip
def test_what_is_quantized_may_ship_but_for_the_twin(family: str, precision: str, may: bool) -> None:
    assert Candidate("one", family, "erf", precision).may_ship is may


def test_a_file_says_which_forms_it_has_and_what_it_was_quantized_to(tmp_path: Path) -> None:
    made = ffn(width=32, hidden=64)
    models = {
        "float": made.whole(),
        "int8": insert.static(made, Recipe(ranges(made, list(feeds(made))))),
        "dynamic-int8": insert.dynamic(made, "u8"),
        "w8": insert.weight_only(made),
    }
    for precision, one in models.items():
        ir.save(one, tmp_path / "m.onnx")
        assert (precision_of(tmp_path / "m.onnx"), form_of(tmp_path / "m.onnx")) == (precision, "erf")
    mixed = model(lambda x: op("Relu", op("Gelu", op("Gelu", x, approximate="tanh"))))
    ir.save(mixed, tmp_path / "m.onnx")
    assert form_of(tmp_path / "m.onnx") == "erf, relu, tanh"
    ir.save(model(lambda x: op("Tanh", x)), tmp_path / "m.onnx")
    assert form_of(tmp_path / "m.onnx") == ""


def test_one_of_ours_says_itself_what_it_was_quantized_to(tmp_path: Path) -> None:
    with stage(tmp_path / "m.onnx") as staged:
        staged.write(model(lambda x: op("Gelu", x)), {"quantization": {"options": {"precision": "fp16"}}})
        staged.publish({})
    assert precision_of(tmp_path / "m.onnx") == "fp16"

"""Free axes and the sizes at which parity is proved, with originals that only pretend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from gelu_deploy.arrays import Arrays
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.originals.cases import BATCH, GROWTH, free_axes, prove, refused


@dataclass
class Fake:
    """Answers the sum of its first input, or refuses."""

    examples: Arrays
    refuses: Callable[[Arrays], bool] = lambda _: False
    notes: list[str] = field(default_factory=list)
    output_names: list[str] = field(default_factory=lambda: ["y"])
    axes: dict[str, dict[int, str]] | None = None
    seen: list[dict[str, tuple[int, ...]]] = field(default_factory=list)

    def run(self, feeds: Mapping[str, Any]) -> Arrays:
        self.seen.append({name: array.shape for name, array in feeds.items()})
        if self.refuses(dict(feeds)):
            raise ModelError(f"not with {feeds['x'].shape}")
        return {"y": np.asarray(feeds["x"].sum())}


def zeros(**shapes: tuple[int, ...]) -> Arrays:
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def test_the_batch_is_free_on_every_input_that_has_it() -> None:
    examples = zeros(x=(2, 8), mask=(2, 4), table=(5, 8), scalar=())
    assert free_axes(examples, [], batch=True) == {"x": {0: BATCH}, "mask": {0: BATCH}, "table": {}, "scalar": {}}
    assert free_axes(examples, [], batch=False) == {"x": {}, "mask": {}, "table": {}, "scalar": {}}


def test_the_first_input_with_axes_says_what_the_batch_is() -> None:
    assert free_axes(zeros(scalar=(), x=(3, 2)), [], batch=True) == {"scalar": {}, "x": {0: BATCH}}
    assert free_axes(zeros(scalar=()), [], batch=True) == {"scalar": {}}


def test_named_axes_are_added_counted_from_either_end() -> None:
    axes = free_axes(zeros(x=(2, 8, 4)), ["x:1=seq", "x:-1=width"], batch=True)
    assert axes == {"x": {0: BATCH, 1: "seq", 2: "width"}}
    assert free_axes(zeros(x=(2, 8)), ["x:1"], batch=False) == {"x": {1: "x_1"}}
    assert free_axes(zeros(x=(2, 8)), ["x:0=rows"], batch=True) == {"x": {0: "rows"}}


@pytest.mark.parametrize("text", ["", "x", "x=seq", "x:=seq", ":1=seq", "x:one=seq", "x:1=", "x:1=a b", "x:1.5=seq"])
def test_what_names_no_axis_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="expected INPUT:AXIS=NAME, for example x:1=seq"):
        free_axes(zeros(x=(2, 8)), [text], batch=True)


def test_axes_that_are_not_there_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no input 'y'; the inputs are x"):
        free_axes(zeros(x=(2, 8)), ["y:1=seq"], batch=True)
    for axis in (2, -3):
        with pytest.raises(UsageError, match=rf"x is 2x8:float32, it has no axis {axis}"):
            free_axes(zeros(x=(2, 8)), [f"x:{axis}=seq"], batch=True)


def test_three_batches_and_one_more_size_of_each_named_axis() -> None:
    original = Fake({"x": np.arange(16, dtype=np.float32).reshape(2, 8), "mask": np.ones((2, 8), np.int64)})
    axes = {"x": {0: BATCH, 1: "seq"}, "mask": {0: BATCH, 1: "seq"}}
    cases = prove(original, axes)
    assert [case.inputs["x"].shape for case in cases] == [(2, 8), (1, 8), (3, 8), (2, 9)]
    assert [case.inputs["mask"].shape for case in cases] == [(2, 8), (1, 8), (3, 8), (2, 9)]
    np.testing.assert_array_equal(cases[2].inputs["x"], original.examples["x"][[0, 1, 0]])
    np.testing.assert_array_equal(cases[3].inputs["x"][:, 8], original.examples["x"][:, 0])
    for case in cases:
        assert case.outputs["y"] == case.inputs["x"].sum()
        assert all(array.flags.c_contiguous for array in case.inputs.values())


def test_without_free_axes_there_is_one_case() -> None:
    assert len(prove(Fake(zeros(x=(2, 8))), {"x": {}})) == 1


@pytest.mark.parametrize("given", [1, 2, 3, 5])
def test_the_size_that_was_given_is_not_proved_twice(given: int) -> None:
    cases = prove(Fake(zeros(x=(given, 4))), {"x": {0: BATCH}})
    assert [case.inputs["x"].shape[0] for case in cases] == [given, *[n for n in (1, 2, 3) if n != given]]


def test_a_named_axis_grows_until_the_original_runs() -> None:
    original = Fake(zeros(x=(2, 32)), lambda feeds: feeds["x"].shape[1] % 16 != 0)
    cases = prove(original, {"x": {1: "width"}})
    assert [case.inputs["x"].shape for case in cases] == [(2, 32), (2, 48)]
    assert [shapes["x"][1] for shapes in original.seen] == [32, 33, 34, 40, 48]


def test_an_axis_at_which_nothing_else_runs_is_an_error_that_says_what_was_tried() -> None:
    original = Fake(zeros(x=(2, 32)), lambda feeds: feeds["x"].shape[1] != 32)
    with pytest.raises(
        ModelError, match=r"axis 'width' .* no other size than 32 \(tried 33, 34, 40, 48, 64, 96\): not"
    ):
        prove(original, {"x": {1: "width"}})
    assert len(original.seen) == 1 + len(GROWTH)


def test_an_original_that_refuses_its_own_example_is_an_error() -> None:
    with pytest.raises(ModelError, match=r"not with \(2, 8\)"):
        prove(Fake(zeros(x=(2, 8)), lambda _: True), {"x": {0: BATCH}})


def test_a_refused_batch_is_a_reason_and_only_the_batch_is_changed() -> None:
    original = Fake(zeros(x=(2, 8)), lambda feeds: feeds["x"].shape[0] != 2)
    axes = {"x": {0: BATCH, 1: "seq"}}
    assert refused(original, axes) == "not with (3, 8)"
    assert refused(Fake(zeros(x=(2, 8))), axes) == ""


def test_an_axis_of_size_nought_stays_so() -> None:
    cases = prove(Fake(zeros(x=(2, 0))), {"x": {0: BATCH}})
    assert [case.inputs["x"].shape for case in cases] == [(2, 0), (1, 0), (3, 0)]

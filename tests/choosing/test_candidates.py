"""What competes: made as export writes it, each kernel once, and what would have to be said for the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from choosing_networks import X, both, gelu, maker, operators, pipeline, unfusable
from graphs import Expression, op

from gelu_deploy import runtime
from gelu_deploy.choosing.candidates import KEEP, above
from gelu_deploy.errors import UsageError
from gelu_deploy.gelu import FORMS
from gelu_deploy.options import ExportOptions


def test_every_way_that_becomes_other_kernels_competes_with_what_it_needs(tmp_path: Path) -> None:
    field = maker(pipeline(unfusable), tmp_path).competitors()
    needs = {one.name: one.needs for one in field}
    assert list(needs) == [
        "erf as ops",
        "erf as contrib",
        "tanh as ops",
        "tanh as contrib",
        "tanh as sigmoid3",
        "sigmoid as ops",
        "sigmoid as contrib",
    ]
    assert needs["erf as ops"] == ""
    assert needs["erf as contrib"] == "--target ort-cpu"
    assert needs["tanh as ops"] == f"--max-form-error {above(field[2].error)}"
    assert needs["sigmoid as contrib"] == f"--max-form-error {above(field[5].error)} --target ort-cpu"
    kernels = {one.name: len(next(iter(one.kernels.values()))) for one in field}
    assert {name for name, count in kernels.items() if count == 1} == {name for name in kernels if "contrib" in name}


def test_of_ways_that_become_the_same_kernels_the_first_stays(tmp_path: Path) -> None:
    def formula(x: Expression) -> Expression:
        return -gelu(op("Tanh", x) + np.ones(16, np.float32))

    made = maker(pipeline(formula, 20, (2, 16)), tmp_path)
    assert [one.name for one in made.competitors()] == [
        "erf as gelu",
        "tanh as gelu",
        "tanh as sigmoid3",
        "sigmoid as ops",
    ]
    assert [*made.base.kernels.values()] == [("BiasGelu",)]
    plain = maker(pipeline(lambda x: -gelu(op("Tanh", x)), 20), tmp_path).competitors()
    assert [one.name for one in plain if one.forms == ("erf",)] == ["erf as gelu", "erf as contrib"]


def test_all_are_simplified_as_the_base_is(tmp_path: Path) -> None:
    weight = np.ones((16, 8), np.float32)
    made = maker(pipeline(lambda x: -gelu(op("MatMul", x, weight) + weight[0]), 20, (2, 16)), tmp_path)
    assert {operators(one.file)[1] for one in made.competitors()} == {"Gemm"}
    assert made.options.simplify


def test_a_budget_and_a_target_let_more_be_taken(tmp_path: Path) -> None:
    start = pipeline(unfusable)
    free = {
        one.name for one in maker(start, tmp_path, target="ort-cpu", max_form_error=1e-3).competitors() if not one.needs
    }
    assert free == {"erf as ops", "erf as contrib", "tanh as ops", "tanh as contrib", "tanh as sigmoid3"}
    said = maker(start, tmp_path, spelling="contrib", max_form_error=1.0).competitors()
    assert {one.name: one.needs for one in said} == dict.fromkeys(
        ("erf as contrib", "tanh as contrib", "sigmoid as contrib"), ""
    )
    assert {one.name for one in maker(start, tmp_path, target="portable-13").competitors()} == {
        "erf as ops",
        "tanh as ops",
        "tanh as sigmoid3",
        "sigmoid as ops",
    }


def test_the_error_is_what_the_form_does_to_the_outputs(tmp_path: Path) -> None:
    field = {one.name: one for one in maker(pipeline(unfusable), tmp_path).competitors()}
    x = runtime.evaluate(field["erf as ops"].file, {"x": X}, optimise=False)["y"]
    for form in ("tanh", "sigmoid"):
        got = runtime.evaluate(field[f"{form} as ops"].file, {"x": X}, optimise=False)["y"]
        assert field[f"{form} as ops"].error == pytest.approx(float(np.abs(got - x).max()), rel=1e-3)
        assert field[f"{form} as contrib"].error == field[f"{form} as ops"].error < FORMS[form].bound
    assert field["erf as contrib"].error == 0


def test_a_candidate_is_what_export_writes_and_the_start_stays(tmp_path: Path) -> None:
    start = pipeline(both, opset=18)
    before = ir.to_proto(start.model)
    made = {one.name: one.file for one in maker(start, tmp_path, opset=17).competitors()}
    assert ir.to_proto(start.model) == before
    start.run(ExportOptions(form="tanh"), 18)
    ir.save(start.whole(), tmp_path / "wanted.onnx")
    assert operators(made["tanh as ops"]) == operators(tmp_path / "wanted.onnx")


def test_single_gelus_may_differ(tmp_path: Path) -> None:
    made = maker(pipeline(), tmp_path)
    first, second = made.base.plans
    mixed = made.make({second: ("tanh", "contrib")})
    assert mixed is not None
    assert mixed.forms == ("erf", "tanh")
    assert mixed.name == "1 erf as ops, 1 tanh as contrib"
    assert mixed.kernels[second] == ("FastGelu",)
    assert mixed.kernels[first] == made.base.kernels[first]
    assert 0 < mixed.error < 1e-3
    assert made.make({second: ("tanh", "contrib")}) is mixed
    assert made.make({first: ("tanh", "contrib")}) is not mixed


def test_kinds_are_told_apart_and_the_largest_comes_first(tmp_path: Path) -> None:
    made = maker(pipeline(lambda x: both(both(x))), tmp_path)
    wide, narrow = made.groups()
    assert len(wide) == len(narrow) == 2
    assert {str(made.base.plans[name].site.output.shape) for name in wide} == {"[n,64]"}
    assert {made.base.kernels[name] for name in wide} == {("Gelu",)}


def test_the_target_that_is_told_is_of_the_provider(tmp_path: Path) -> None:
    other = maker(pipeline(unfusable), tmp_path, provider="CPUExecutionProvider").competitors()
    assert other[1].needs == "--spelling contrib"


def test_excluded_gelus_do_not_compete_and_without_any_there_is_nothing(tmp_path: Path) -> None:
    assert maker(pipeline(unfusable), tmp_path, exclude=("*",)).competitors() == []
    assert maker(pipeline(lambda x: -x), tmp_path).competitors() == []


def test_what_cannot_be_written_is_no_candidate_but_an_error_of_the_base(tmp_path: Path) -> None:
    made = maker(pipeline(unfusable), tmp_path)
    assert made.make(dict.fromkeys(made.base.plans, ("tanh", "gelu"))) is None
    with pytest.raises(UsageError, match="needs opset 20"):
        maker(pipeline(unfusable), tmp_path, spelling="gelu").competitors()


def test_a_simplification_that_moved_the_answers_is_left_out_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = pipeline(unfusable)
    monkeypatch.setattr("gelu_deploy.pipeline.Pipeline.simplify", lambda *_: None)
    made = maker(start, tmp_path)
    assert made.base.choices == {}
    assert not made.options.simplify


@pytest.mark.parametrize(
    ("error", "told"),
    [(0.00061, "7e-4"), (0.0004733, "5e-4"), (0.0096, "1e-2"), (0.02, "2e-2"), (3.0, "3e0"), (12.0, "2e1"), (0, "0")],
)
def test_a_budget_is_told_in_one_digit_that_suffices(error: float, told: str) -> None:
    assert above(error) == told
    assert float(told) >= error


def test_keep_is_the_name_of_the_form_that_stays() -> None:
    assert ExportOptions().form == KEEP

"""What is said of a GELU that a runtime computes otherwise than it is written."""

from __future__ import annotations

import numpy as np
import pytest

from gelu_deploy import gelu
from gelu_deploy.graph.judge import GRID
from gelu_deploy.others import RUNTIMES
from gelu_deploy.others.advice import advice, complaint, faithful
from gelu_deploy.others.judge import nearest
from gelu_deploy.results import SiteResult


def row(module: str, form: str, spelling: str) -> SiteResult:
    return {
        "form": form,
        "spelling": spelling,
        "input": f"{module}.x",
        "output": f"{module}.y",
        "module": module,
        "error": 0.0,
        "kernels": [],
        "reason": "",
        "written": {"form": form, "spelling": spelling},
    }


def test_the_module_both_forms_and_the_way_out_are_named() -> None:
    tanh = nearest(GRID, gelu.tanh_form(GRID))
    rows = [row(f"blocks.{n}.mlp.act", "erf", "gelu") for n in range(3)]
    assert complaint("mnn", rows, {one["output"]: tanh for one in rows}) == (
        "blocks.0.mlp.act and 2 more are written as erf and mnn computes tanh (4.7e-04 off erf); "
        "--spelling ops is computed as written there"
    )


def test_sites_that_are_computed_as_written_or_unknown_are_no_complaint() -> None:
    rows = [row("a", "erf", "gelu"), row("b", "tanh", "ops")]
    assert complaint("mnn", rows, {"a.y": nearest(GRID, gelu.erf_form(GRID))}) == ""


def test_no_gelu_at_all() -> None:
    said = complaint("opencv", [row("a", "tanh", "ops")], {"a.y": nearest(GRID, np.full_like(GRID, np.nan))})
    assert said == (
        "a is written as tanh and opencv computes no form of GELU; --spelling sigmoid3 is computed as written there"
    )


def test_another_form_is_offered_where_no_spelling_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {("erf", "ops"): "tanh", ("erf", "gelu"): "tanh", ("erf", "contrib"): "refused"}
    others = {(form, way): form for form in gelu.FORMS if form != "erf" for way in gelu.FORMS[form].spellings}
    monkeypatch.setattr("gelu_deploy.others.advice.COMPUTED", {"mnn": table | others})
    assert advice("mnn", "erf", "tanh") == (
        "no spelling of erf is computed as written there, --form tanh --spelling ops is"
    )
    monkeypatch.setattr("gelu_deploy.others.advice.COMPUTED", {"mnn": dict.fromkeys(table | others, "refused")})
    assert advice("mnn", "erf", "tanh") == "no form has a spelling that is computed as written there"


@pytest.mark.parametrize("name", RUNTIMES)
def test_every_common_form_has_a_faithful_spelling_everywhere(name: str) -> None:
    assert faithful(name, "erf")
    assert faithful(name, "tanh")
    assert faithful(name, "sigmoid") == (["ops"] if name in {"opencv", "mnn"} else ["ops", "contrib"])

"""The forms as a person reads them; it knows the shape of the result and nothing of how it was measured."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from gelu_deploy.cli import forms_bench_table, layout
from gelu_deploy.results import FormResult, FormSpelling, FormsResult
from gelu_deploy.results.measuring import LARGEST

ACCURACY = ["form", "<largest", "<at |x|", "<in erf", "<x>0", "<x<0", "<RMS", "<8-bit codes"]
COST = ["form", "spelling", "<nodes", "<opset", "<fp16", "<bf16", "<fp16*", "<bf16*", "<x<0"]
RANGE = ["form", "spelling", "<float16", "<bfloat16", "<float32", "operators"]
ACCURACY_LEGEND = [
    ("largest", "distance to GELU, and where"),
    ("in erf", "the same of the erf that the form stands for"),
    ("x>0, x<0", "largest error relative to GELU: on the right, and on the left tail from -6 to 0"),
    ("RMS", "of the distance on -4 to 4"),
    ("8-bit codes", "that change at the output, for inputs N(0, 1.5) and a range of -0.17 to 6"),
]
COST_LEGEND = [
    ("fp16, bf16", "distance to GELU over every finite value, each node exact and then rounded to the type"),
    ("fp16*, bf16*", "the same, computed in float32 between two Casts, as export --fp16-safe has it"),
    ("x<0", "largest relative error on the left tail in float32, each node rounded; a single one may do anything"),
]
RANGE_LEGEND = [
    ("float16 …", "largest |x| up to which no node overflows; past it the answer may still be right"),
]


def render(result: FormsResult) -> list[RenderableType]:
    """Accuracy of the forms; cost and 16-bit errors of the spellings; their ranges."""
    forms = result["forms"]
    spelled = [(form, spelling) for form in forms for spelling in form["spellings"]]
    references = ", ".join(form["name"] for form in forms if not form["offered"])
    last = f"{layout.count(len(forms), 'form')}; {references} only for reference, the others for export --form"
    wrote = f"; wrote {', '.join(result['files'])}" if result["files"] else ""
    return [
        layout.table(ACCURACY, [_accuracy(form) for form in forms]),
        layout.facts(ACCURACY_LEGEND),
        layout.table(COST, [_cost(*one) for one in spelled]),
        layout.facts(COST_LEGEND),
        layout.table(RANGE, [_range(*one) for one in spelled]),
        layout.facts(RANGE_LEGEND),
        *(forms_bench_table.render(result["bench"], forms) if result["bench"] else []),
        Text(last + wrote),
    ]


def _accuracy(form: FormResult) -> tuple[str, ...]:
    worst = form["absolute"]
    return (
        form["name"],
        _digits(worst["value"], 5),
        f"{worst['at']:.3f}" if worst["value"] else "-",
        _digits(form["erf"]["value"], 3),
        layout.number(form["relative"]["value"]),
        layout.number(form["tail"]["value"]),
        _digits(form["rms"], 3),
        f"{form['codes_changed']:.2%}",
    )


def _cost(form: FormResult, spelling: FormSpelling) -> tuple[str, ...]:
    errors = [*spelling["error"].values(), *spelling["error_inside_float32"].values(), spelling["tail"]]
    return (
        form["name"],
        spelling["name"],
        str(len(spelling["operators"])),
        str(spelling["opset"] or "none"),
        *(layout.number(error["value"]) for error in errors),
    )


def _range(form: FormResult, spelling: FormSpelling) -> tuple[str, ...]:
    prefix = f"{spelling['domain']}." if len(spelling["operators"]) == 1 and spelling["domain"] else ""
    operators = " ".join(sorted(set(spelling["operators"])))
    return (form["name"], spelling["name"], *_sizes(spelling), prefix + operators)


def _sizes(spelling: FormSpelling) -> Iterator[str]:
    for dtype, largest in spelling["safe"].items():
        yield "all" if largest >= LARGEST[dtype] else f"{largest:.4g}"


def _digits(value: float, digits: int) -> str:
    """So many significant digits: ``4.7324e-4``."""
    return re.sub(r"e([+-])0+", r"e\1", f"{value:.{digits - 1}e}") if value else "0"

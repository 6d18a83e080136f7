"""``forms``: every form of GELU, how far it is from GELU itself, and what each way to write it down costs.

It reads the table of forms and measures; it needs no model, and a runtime or PyTorch only to time them.
"""

from __future__ import annotations

from gelu_deploy.gelu import FORMS, REFERENCES, Form, accuracy, precision
from gelu_deploy.gelu.spellings import ATEN, HIDDEN
from gelu_deploy.options import FormsOptions
from gelu_deploy.progress import step
from gelu_deploy.results import FormResult, FormsBenchResult, FormSpelling, FormsResult, PeakResult

SCHEMA = "gelu-deploy/forms/1"
NEAR_ZERO = 1e-6
"""Where relative errors begin: at 0 they are 0/0."""


def forms(options: FormsOptions) -> FormsResult:
    """Measure every form and every way to write one down.

    Raises:
        OutputError: The page cannot be written where it was asked for.
        SetupError: Jinja, which writes the page, is not installed.
    """
    if options.html is None:
        return _result(options, [])
    from gelu_deploy.artifact.staging import staging
    from gelu_deploy.report.forms import html
    from gelu_deploy.report.page import environment

    environment()  # Jinja is looked for before minutes of measuring
    with staging(options.html, overwrite=True) as stage:
        result = _result(options, [options.html])
        (stage.folder / stage.target.name).write_text(html(result), encoding="utf-8")
        stage.publish()
    return result


def _result(options: FormsOptions, files: list[str]) -> FormsResult:
    measured = [_measured(form) for form in (*FORMS.values(), *REFERENCES.values())]
    return FormsResult(schema=SCHEMA, forms=measured, bench=_timed(measured) if options.bench else None, files=files)


def _timed(measured: list[FormResult]) -> FormsBenchResult:
    from gelu_deploy.forms_bench import racing
    from gelu_deploy.forms_bench.claims import claims
    from gelu_deploy.timing import machine

    rows, notes = racing.race()
    return FormsBenchResult(
        shape=list(racing.SHAPE),
        dtype="float32",
        machine=machine.here(),
        rows=rows,
        claims=claims(measured, rows),
        notes=notes,
    )


def _measured(form: Form) -> FormResult:
    with step(f"measure {form.name}"):
        return FormResult(
            name=form.name,
            offered=form.name in FORMS,
            absolute=_peak(accuracy.absolute(form)),
            erf=_peak(accuracy.in_erf(form)),
            relative=_peak(accuracy.relative(form, NEAR_ZERO, accuracy.REACH)),
            tail=_peak(accuracy.relative(form, accuracy.TAIL, -NEAR_ZERO)),
            rms=accuracy.rms(form),
            codes_changed=accuracy.codes_changed(form),
            spellings=[_spelled(form, name) for name in form.spellings if name != HIDDEN],
        )


def _spelled(form: Form, name: str) -> FormSpelling:
    spelling = form.spellings[name]
    domain = next((step.domain for step in spelling.steps if step.domain), "")
    return FormSpelling(
        name=name,
        operators=[step.op for step in spelling.steps],
        opset=0 if domain == ATEN else spelling.since,
        domain=domain,
        error={dtype: _peak(precision.error(form, name, dtype)) for dtype in precision.SIXTEEN},
        error_inside_float32={
            dtype: _peak(precision.error(form, name, dtype, inside="float32")) for dtype in precision.SIXTEEN
        },
        tail=_peak(precision.tail(form, name)),
        safe={dtype: precision.safe(form, name, dtype) for dtype in precision.TYPES},
    )


def _peak(found: accuracy.Peak) -> PeakResult:
    return PeakResult(value=found.value, at=found.at)

"""The forms of GELU as one HTML file: errors on a logarithmic axis, times as bars, engine by engine.

It knows the shape of the result and nothing of how it was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gelu_deploy.report import scales, words
from gelu_deploy.report.page import environment
from gelu_deploy.results import FormResult, FormsBenchResult, FormsBenchRow, FormsResult
from gelu_deploy.results.measuring import LARGEST


@dataclass(frozen=True)
class Bar:
    """One row with a bar from the left, in percent of the width."""

    row: Any
    width: float


@dataclass(frozen=True)
class Engine:
    """The times of one engine; the longest bar fills the width."""

    name: str
    bars: list[Bar]


def html(result: FormsResult) -> str:
    """The page. Raises SetupError where Jinja is not installed."""
    forms, bench = result["forms"], result["bench"]
    scale = _errors(forms)
    return (
        environment()
        .get_template("forms.html")
        .render(
            result=result,
            words=words,
            limit=LARGEST,
            errors=[Bar(form, _width(scale, form)) for form in forms],
            ticks=[(100 * scale.at(tick), words.figures(tick, 1)) for tick in scale.ticks(6)],
            engines=_engines(bench) if bench else [],
        )
    )


def _errors(forms: list[FormResult]) -> scales.Scale:
    """An axis on which every error above zero has a bar that can be seen."""
    found = [form["absolute"]["value"] for form in forms if form["absolute"]["value"] > 0]
    return scales.Scale(min(found) / 3, max(found) * 1.5, logarithmic=True)


def _width(scale: scales.Scale, form: FormResult) -> float:
    error = form["absolute"]["value"]
    return 100 * scale.at(error) if error else 0.0


def _engines(bench: FormsBenchResult) -> list[Engine]:
    names = dict.fromkeys(row["engine"] for row in bench["rows"])
    return [_engine(name, [row for row in bench["rows"] if row["engine"] == name]) for name in names]


def _engine(name: str, rows: list[FormsBenchRow]) -> Engine:
    longest = max(row["nanoseconds"] for row in rows)
    return Engine(name, [Bar(row, 100 * row["nanoseconds"] / longest) for row in rows])

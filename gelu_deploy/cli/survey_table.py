"""A survey as a person reads it; it knows the shape of the result and nothing of how it was counted."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from gelu_deploy.cli import layout
from gelu_deploy.results import SurveyedSite, SurveyResult

VALUES = ["module", "form", "<lowest", "<highest", "<std", "<outliers", "<codes<0"]
ACTION = ["module", "<effective", "<negative", "<vanishing", "<dead", "<saturated"]
LEGEND = [
    ("lowest … std", "of the input"),
    ("outliers", "largest output over the 99.9 % quantile, of magnitudes"),
    ("codes<0", "of the 256 codes of 8 bits, those for negative outputs"),
    ("effective", "outputs above 0.01 in magnitude"),
    ("negative", "outputs below zero"),
    ("vanishing", "inputs at which the slope is below 0.01 in magnitude, so that no gradient comes through"),
    ("dead", "channels without one effective output"),
    ("saturated", "channels that are nowhere bent: every output is within 0.01 of its input"),
]


def render(result: SurveyResult) -> list[RenderableType]:
    """Two tables of the sites under what was run, and what their columns mean."""
    facts = [
        ("source", result["source"]),
        ("ran", f"{layout.count(result['rows'], 'row')} of {result['data']}, {result['provider']}"),
        *(("", note) for note in result["notes"]),
    ]
    sites = result["sites"]
    if not sites:
        return [layout.facts(facts), Text("No GELU and no ReLU found.")]
    strange = [(_name(one), _strange(one)) for one in sites if one["not_finite"]]
    return [
        layout.facts(facts),
        layout.table(VALUES, [_values(one) for one in sites]),
        layout.table(ACTION, [_action(one) for one in sites]),
        *([layout.facts(strange)] if strange else []),
        layout.facts(LEGEND),
        Text(layout.count(len(sites), "site"), style="bold"),
    ]


def _values(one: SurveyedSite) -> tuple[str, ...]:
    numbers = (one["minimum"], one["maximum"], one["std"], one["outlier_ratio"])
    return (_name(one), one["activation"], *map(layout.number, numbers), str(one["codes_below_zero"]))


def _action(one: SurveyedSite) -> tuple[str, ...]:
    shares = (one["effective"], one["negative"], one["vanishing"])
    channels = (one["dead"], one["saturated"])
    return (_name(one), *map(layout.share, shares), *(f"{count}/{one['channels']}" for count in channels))


def _name(one: SurveyedSite) -> str:
    return one["module"] or one["output"]


def _strange(one: SurveyedSite) -> str:
    return f"{one['not_finite']} values are NaN or infinite and were left out"

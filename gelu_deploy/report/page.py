"""A comparison as one HTML file: the templates in the folder beside this file, filled.

All text is escaped: names of files and modules are whatever their authors made them. It knows nothing of files.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gelu_deploy.errors import SetupError
from gelu_deploy.report import bars, histograms, words
from gelu_deploy.report.columns import columns
from gelu_deploy.report.scatter import HEIGHT, scatter
from gelu_deploy.results import CompareResult, VariantResult

if TYPE_CHECKING:
    from jinja2 import Environment

SHOWN = 12
"""Rows of a table, and budgets of a list, before the reader asks for the rest."""


def html(result: CompareResult) -> str:
    """The page. Raises SetupError where Jinja is not installed."""
    return environment().get_template("page.html").render(_shown(result))


@cache
def environment() -> Environment:
    """Templates by name, with everything escaped. Raises SetupError."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise SetupError("The HTML report needs Jinja2, which is missing: pip install 'gelu-deploy[report]'") from None
    return Environment(
        loader=PackageLoader("gelu_deploy.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def _shown(result: CompareResult) -> dict[str, Any]:
    """What the templates may use."""
    sites = result["sites"]
    metric = result["metric"]
    return {
        "result": result,
        "metric": metric,
        "words": words,
        "limit": SHOWN,
        "columns": columns(metric),
        "chosen": _chosen(result),
        "scatter": scatter(result),
        "height": HEIGHT,
        "intervals": bars.intervals(result["activation"], metric) if result["activation"] else None,
        "waterfalls": [bars.waterfall(one) for one in result["waterfalls"]],
        "families": [histograms.family(sites, name) for name in dict.fromkeys(one["family"] for one in sites)],
        "rankings": [(one, bars.ranked(one["layers"])) for one in result["sensitivity"] if one["layers"]],
    }


def _chosen(result: CompareResult) -> VariantResult | None:
    return next((one for one in result["variants"] if one["name"] == result["decision"]), None)

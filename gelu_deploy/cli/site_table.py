"""The table of GELUs: one row for each, or for each kind where they are many.

It knows the rows in ``results`` and nothing of verbs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from gelu_deploy.cli import layout
from gelu_deploy.results import SiteResult

SITES_SHOWN = 24
KERNELS_SHOWN = 2


class _Row(NamedTuple):
    """One line of the table of sites; ``became`` is its kernel, or what another runtime computes."""

    module: str
    form: str
    spelling: str
    became: str
    error: float


def render(sites: list[SiteResult]) -> list[RenderableType]:
    """The table, and below it the reasons of what is not as one would expect."""
    if not sites:
        return [Text("No GELU found.\n")]
    elsewhere = any("computed" in site for site in sites)
    rows = [_row(site) for site in sites]
    if len(rows) > SITES_SHOWN:
        rows = _grouped(rows)
    table = layout.table(
        ["module", "form", "spelling", "computed as" if elsewhere else "kernel", "<error"],
        [(*row[:4], layout.number(row.error)) for row in rows],
    )
    return [table, *_reasons(sites)]


def _row(site: SiteResult) -> _Row:
    found, written, computed = site.get("found"), site.get("written"), site.get("computed")
    before, after = found or site, written or site
    return _Row(
        site["module"] or site["output"],
        _change(_form(before), _form(after)),
        _change(before["spelling"], after["spelling"]),
        _kernels(site["kernels"]) if computed is None else f"{computed['form']}, {computed['how']}",
        site["error"] if computed is None else computed["error"],
    )


def _form(writing: Mapping[str, Any]) -> str:
    alpha = writing.get("alpha")
    return writing["form"] if alpha is None else f"{writing['form']} {alpha:g}"


def _change(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _kernels(kernels: list[str]) -> str:
    more = f" +{len(kernels) - KERNELS_SHOWN}" if len(kernels) > KERNELS_SHOWN else ""
    return ", ".join(kernels[:KERNELS_SHOWN]) + more if kernels else "-"


def _grouped(rows: list[_Row]) -> list[_Row]:
    """Rows that differ by the numbers in their module's name only become one, with the largest error."""
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault((_pattern(row.module), *row[1:4]), []).append(row)
    return [
        members[0]
        if len(members) == 1
        else members[0]._replace(module=f"{key[0]} ×{len(members)}", error=max(row.error for row in members))
        for key, members in groups.items()
    ]


def _pattern(module: str) -> str:
    return re.sub(r"\d+", "*", module)


def _reasons(sites: list[SiteResult]) -> list[RenderableType]:
    """Why a site is not as one would expect, each reason once with the modules that it holds for."""
    modules: dict[str, list[str]] = {}
    for site in sites:
        if site["reason"]:
            modules.setdefault(site["reason"], []).append(site["module"] or site["output"])
    return [layout.facts((_together(names), reason) for reason, names in modules.items())] if modules else []


def _together(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(dict.fromkeys(_pattern(name) for name in names))

"""The outputs of one activation over the 8-bit grid that they fall on: outlines of histograms and places of codes.

Positions are shares of the width in percent, outlines lie in a box of 1000 by 100. It draws nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gelu_deploy.report import scales, words
from gelu_deploy.results import GridResult, Histogram, SiteHistogram

SHOWN = 12
"""Sites that are shown before the reader asks for the rest."""
LINES = 48
"""Codes in the lobe that are drawn one by one; more are drawn as one pattern."""
APART = 16
"""Codes between two long ticks."""


@dataclass(frozen=True)
class Comb:
    """Evenly spaced codes from ``first`` to ``last``, which are ``gaps`` apart."""

    first: float
    last: float
    gaps: int


@dataclass(frozen=True)
class View:
    """One histogram: its outline, the codes on it, zero, and the ticks of its axis."""

    outline: str
    zero: float
    ticks: list[tuple[float, str]]
    every: Comb | None
    some: Comb | None
    codes: list[float]


@dataclass(frozen=True)
class Site:
    """One activation; ``lobe`` is None where nothing is below zero."""

    result: SiteHistogram
    output: View
    lobe: View | None
    band: tuple[float, float]
    """Left end and width, on the output's axis, of what the lobe shows enlarged."""


@dataclass(frozen=True)
class Family:
    """Activations in the network's order: those to show at once, the others, and names of what has no counts."""

    name: str
    shown: list[Site]
    others: list[Site]
    silent: list[str]


def family(results: list[SiteHistogram], name: str) -> Family:
    """The family of that name; where its sites are many, those whose negative lobe is the worst are shown at once."""
    own = [one for one in results if one["family"] == name]
    sites = [one for one in own if any(one["output"]["counts"])]
    order = sorted(range(len(sites)), key=lambda index: _quality(sites[index]))
    first = set(order[:SHOWN])
    return Family(
        name,
        shown=[picture(site) for index, site in enumerate(sites) if index in first],
        others=[picture(site) for index, site in enumerate(sites) if index not in first],
        silent=[one["module"] for one in own if not any(one["output"]["counts"])],
    )


def _quality(site: SiteHistogram) -> float:
    return math.inf if math.isnan(site["lobe_sqnr"]) else site["lobe_sqnr"]


def picture(site: SiteHistogram) -> Site:
    """One activation whose output has counts."""
    grid, edges = site["grid"], site["output"]["edges"]
    reach = [edges[0], edges[-1], 0.0, *(_ends(grid) if grid else ())]
    whole = scales.around(reach, margin=0.01)
    lobe = site["lobe"] if any(site["lobe"]["counts"]) else None
    low = lobe["edges"][0] if lobe else 0.0
    left = 100 * whole.at(low)
    return Site(
        result=site,
        output=_view(site["output"], whole, grid, math.log1p),
        lobe=_view(lobe, scales.Scale(low * 1.06, -low * 0.06), grid, math.sqrt) if lobe else None,
        band=(left, 100 * whole.at(0.0) - left),
    )


def _ends(grid: GridResult) -> tuple[float, float]:
    low, high = ((grid[end] - grid["zero"]) * grid["scale"] for end in ("lowest", "highest"))
    return low, high


def _view(histogram: Histogram, scale: scales.Scale, grid: GridResult | None, height: Callable[[float], float]) -> View:
    codes = _inside(grid, scale) if grid else range(0)
    every = _comb(codes, grid, scale) if grid else None
    some = _comb(codes[(grid["zero"] - codes.start) % APART :: APART], grid, scale) if grid else None
    single = [_at(code, grid, scale) for code in codes] if grid and len(codes) <= LINES else []
    ticks = scale.ticks(5)
    digits = scales.decimals(ticks)
    named = [(100 * scale.at(tick), words.fixed(tick, digits) if tick else "0") for tick in ticks]
    return View(_outline(histogram, scale, height), 100 * scale.at(0.0), named, every, some, single)


def _at(code: int, grid: GridResult, scale: scales.Scale) -> float:
    return 100 * scale.at((code - grid["zero"]) * grid["scale"])


def _inside(grid: GridResult, scale: scales.Scale) -> range:
    """Codes whose numbers are on the axis."""
    first = math.ceil(scale.low / grid["scale"]) + grid["zero"]
    last = math.floor(scale.high / grid["scale"]) + grid["zero"]
    return range(max(first, grid["lowest"]), min(last, grid["highest"]) + 1)


def _comb(codes: range, grid: GridResult, scale: scales.Scale) -> Comb | None:
    if len(codes) < 2:
        return None
    return Comb(_at(codes[0], grid, scale), _at(codes[-1], grid, scale), len(codes) - 1)


def _outline(histogram: Histogram, scale: scales.Scale, height: Callable[[float], float]) -> str:
    """A path of steps, its highest at 0 and its foot at 100."""
    highest = height(max(histogram["counts"]))
    places = [1000 * scale.at(edge) for edge in histogram["edges"]]
    levels = [100 - 100 * height(count) / highest for count in histogram["counts"]]
    steps = " ".join(f"V{level:.1f} H{right:.1f}" for level, right in zip(levels, places[1:], strict=True))
    return f"M{places[0]:.1f} 100 {steps} V100 Z"

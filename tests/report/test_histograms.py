"""Outputs over their 8-bit codes: outlines, combs of codes, the enlarged lobe."""

from __future__ import annotations

import math
import re

import pytest
from compare_sample import large, site

from gelu_deploy.report import histograms
from gelu_deploy.results import GridResult, Histogram

GRID = GridResult(scale=0.02, zero=8, lowest=0, highest=255)


def test_the_comb_has_a_tooth_for_every_code_and_a_long_one_at_zero() -> None:
    drawn = histograms.picture({**site("a", 0), "grid": GRID}).output
    assert drawn.every is not None
    assert drawn.some is not None
    tooth = (drawn.every.last - drawn.every.first) / drawn.every.gaps
    assert drawn.every.gaps == 255
    assert drawn.every.first + 8 * tooth == pytest.approx(drawn.zero)
    assert drawn.some.first == pytest.approx(drawn.zero)
    assert (drawn.some.last - drawn.some.first) / drawn.some.gaps == pytest.approx(16 * tooth)


def test_the_lobe_has_a_line_for_each_code_that_falls_into_it() -> None:
    one = {**site("a", 0), "grid": GRID}
    drawn = histograms.picture(one)  # type: ignore[arg-type]  # a site with another grid
    assert drawn.lobe is not None
    assert len(drawn.lobe.codes) == 9, "0 to 8, which is zero"
    assert drawn.lobe.codes[-1] == pytest.approx(drawn.lobe.zero)
    assert drawn.band[0] + drawn.band[1] == pytest.approx(drawn.output.zero)


def test_many_codes_in_the_lobe_are_drawn_as_a_comb() -> None:
    fine = GridResult(scale=0.001, zero=200, lowest=0, highest=255)
    drawn = histograms.picture({**site("a", 0), "grid": fine})
    assert drawn.lobe is not None
    assert drawn.lobe.codes == []
    assert drawn.lobe.every is not None
    assert drawn.lobe.every.gaps > histograms.LINES


def test_signed_codes_stand_where_unsigned_ones_do() -> None:
    signed = GridResult(scale=0.02, zero=-120, lowest=-128, highest=127)
    ways = [histograms.picture({**site("a", 0), "grid": grid}) for grid in (GRID, signed)]
    assert ways[0].output == ways[1].output


def test_an_outline_is_as_high_as_its_counts_say() -> None:
    flat = Histogram(edges=[0.0, 1.0, 2.0, 3.0], counts=[0, 10, 5])
    one = {**site("a", 0, integer=False), "output": flat}
    outline = histograms.picture(one).output.outline  # type: ignore[arg-type]  # a site with other counts
    heights = [float(found) for found in re.findall(r"V([\d.]+) H", outline)]
    assert heights == pytest.approx([100, 0, 100 - 100 * math.log1p(5) / math.log1p(10)], abs=0.1)


def test_a_relu_has_no_lobe_and_a_float_site_no_codes() -> None:
    relu, plain = histograms.picture(site("a", 0, family="twin")), histograms.picture(site("a", 0, integer=False))
    assert relu.lobe is None
    assert plain.lobe is not None
    assert (plain.output.every, plain.lobe.codes) == (None, [])


def test_of_many_sites_the_worst_lobes_are_shown_in_the_networks_order() -> None:
    sites = large()["sites"]
    found = histograms.family(sites, "model")
    shown, others = ([one.result["lobe_sqnr"] for one in part] for part in (found.shown, found.others))
    assert (len(shown), len(others)) == (histograms.SHOWN, len(sites) - histograms.SHOWN)
    assert max(shown) <= min(others)
    names = [one.result["module"] for one in found.shown]
    assert names == [one["module"] for one in sites if one["module"] in names]


def test_what_has_no_counts_is_named() -> None:
    silent = {**site("a", 0), "output": Histogram(edges=[0.0], counts=[])}
    found = histograms.family([silent, site("b", 1)], "model")  # type: ignore[list-item]  # a site without counts
    assert found.silent == ["a"]
    assert [one.result["module"] for one in found.shown] == ["b"]

"""The three lines that tell what ``--form auto`` took, what it costs in accuracy, and what that was measured on.

It knows the result and nothing of how it came about.
"""

from __future__ import annotations

import re

from gelu_deploy.choosing.racing import visible
from gelu_deploy.results import CandidateResult, ChoiceResult, EffectResult, Spread

LOUD = 0.05
"""Gains that cannot be seen, because something else runs on the machine, are spoken of from here on."""


def lines(result: ChoiceResult) -> list[str]:
    """What was taken; what it changes, or what a change would bring; how it was measured."""
    return [_taken(result), _price(result), measured(result)]


def _taken(result: ChoiceResult) -> str:
    keeps, others = f"keeps {result['own']}", result["candidates"][1:]
    if not others:
        return f"{keeps}: no other way to write it becomes other kernels here"
    if result["chosen"] != result["own"]:
        return f"{result['chosen']} in the place of {result['own']}: {_ratio(result['ratio'])}"
    if result["tried"]:
        return f"{keeps}: {result['tried']} seemed faster and, measured again, took {_ratio(result['ratio'])}"
    allowed = [one for one in others if not one["needs"]]
    if not allowed:
        return f"{keeps}: no other way that is allowed becomes other kernels here"
    best = min(allowed, key=lambda one: one["ratio"]["median"])
    return f"{keeps}: nothing gained beyond noise; best other: {best['name']}, {_ratio(best['ratio'])}"


def _price(result: ChoiceResult) -> str:
    budget = "no --max-form-error" if result["budget"] is None else f"--max-form-error {result['budget']:g}"
    rows = {one["name"]: one for one in result["candidates"]}
    changed = {
        name: _changed(one, result) for name, one in rows.items() if one["forms"] != rows[result["own"]]["forms"]
    }
    if result["chosen"] in changed:
        return f"{budget}: {changed[result['chosen']]}"
    if result["offer"]:
        offer = rows[result["offer"]]
        told = f"{offer['name']}, {_ratio(offer['ratio'])}"
        price = f"; {changed[offer['name']]}" if offer["name"] in changed else ""
        return f"{budget}: the form stays; with {offer['needs']}: {told}{price}"
    closed = any(one["needs"] for one in rows.values())
    return f"{budget}: the form stays" + (", and what is not allowed would gain nothing beyond noise" if closed else "")


def _changed(one: CandidateResult, result: ChoiceResult) -> str:
    return f"outputs change by {_number(one['error'])} at most; {_effect(one, result)}"


def _effect(one: CandidateResult, result: ChoiceResult) -> str:
    effect = one.get("effect")
    if effect is None:
        why = f"{result['data']} lacks an input" if result["data"] else "no --data"
        return f"{why}, so that nothing is known of the answers on real rows"
    parts = [*_metric(effect), *_classes(effect)]
    return f"{', '.join(parts)} on {effect['rows']} rows of {result['data']}"


def _metric(effect: EffectResult) -> list[str]:
    metric = effect.get("metric")
    if metric is None:
        return []
    before, after = (
        f"{value:.2%}" if metric["percent"] else f"{value:.5g}" for value in (metric["before"], metric["after"])
    )
    return [f"{metric['name']} {before} -> {after}"]


def _classes(effect: EffectResult) -> list[str]:
    if "agreement" not in effect or "kl" not in effect:
        return [f"SQNR {effect['sqnr']:.0f} dB"]
    return [f"agreement {effect['agreement']:.2%}", f"KL {_number(effect['kl'])}"]


def measured(result: ChoiceResult) -> str:
    """The line that says what was measured, on what, and how far equals differ."""
    what = f"{_count(result['gelus'], 'GELU')} of {_count(result['shapes'], 'shape')}"
    if not result["candidates"]:
        return f"nothing measured: {what}, {result['provider']}"
    ways = f"{len(result['candidates'])} ways to write {what}, {result['rounds']} rounds in turns"
    where = f"{result['provider']}, {_count(int(result['machine']['threads']), 'thread')}"
    fed = ", ".join(f"{name} {shape}" for name, shape in result["feeds"].items())
    told = f"measured: {ways}, {where}, with {fed}; the same twice: {_spread(result['noise'])}"
    unseen = 1 - visible(result["noise"])
    told += f", so that no gain below {unseen:.0%} can be seen" if unseen > LOUD else ""
    return told + ("; kept from an earlier run, --no-cache measures anew" if result["cached"] else "")


def _number(value: float) -> str:
    return "0" if value == 0 else re.sub(r"e([+-])0+", r"e\1", f"{value:.1e}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _spread(ratio: Spread, what: str = "") -> str:
    return f"{ratio['median']:.2f}{what} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def _ratio(ratio: Spread) -> str:
    return _spread(ratio, " of its time")

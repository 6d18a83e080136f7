"""The runtime's settings that one model runs best with on this machine: chosen by measuring, kept only when they gain.

``timing`` times variants, each in its own process; here stands what is tried and when a gain is believed. It knows
nothing of GELU or of INT8: whether answers are still good is judged by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gelu_deploy import runtime
from gelu_deploy.arrays import Array
from gelu_deploy.runtime.providers import available_threads
from gelu_deploy.runtime.settings import Settings
from gelu_deploy.timing.interleaved import Timing, Variant, timed

SUSPECTS = (
    "SkipLayerNormFusion",
    "LayerNormFusion",
    "BiasGeluFusion",
    "MatMulScaleFusion",
    "MatmulTransposeFusion",
    "AttentionFusion",
    "NchwcTransformer",
    "TransposeOptimizer",
)
"""Optimizers whose result may be slower than what it replaces: SkipLayerNormalization takes six times as long as an Add
and a LayerNormalization (int8.md, 2.12)."""

GAIN = 0.98
"""A setting is kept when the median of its time over the base's is below this and nine rounds in ten gain."""

BASE = "the runtime's own"


@dataclass(frozen=True)
class Tuning:
    """What was measured, and what is to be used.

    Attributes:
        settings: The chosen ones; the default where nothing gained.
        base: Median milliseconds with the runtime's own settings.
        chosen: The same with ``settings``, from the same run.
        tried: Every variant's time over the base's, by name: median, and the tenth and ninetieth percentile.
    """

    settings: Settings
    base: float
    chosen: float
    tried: Mapping[str, tuple[float, float, float]]


def tune(
    model: Path,
    feeds: Mapping[str, Array],
    good: Callable[[Settings], bool],
    *,
    provider: str = "cpu",
    rounds: int = 9,
) -> Tuning:
    """Try what may be faster one by one, then what gained together.

    Args:
        model: The file.
        feeds: Inputs of the size that it will run at.
        good: Whether the answers with some settings are as good as with the runtime's own; asked when nothing is timed.
        provider: Where it runs.
        rounds: How often each variant has its turn.

    Raises:
        NativeCrash: The model cannot be run in a process of its own.
    """
    candidates = _candidates(model, provider)
    found = timed(_variants(candidates, model, provider), feeds, rounds=rounds)
    base, tried = found[0], zip(candidates, found[1:], strict=True)
    gained = [one for one, timing in tried if gains(timing, base) and good(one)]
    if not gained:
        return Tuning(Settings(), base.median, base.median, _summary(found))
    together = _together(gained)
    final = timed(_variants([together], model, provider), feeds, rounds=rounds)
    kept = gains(final[1], final[0]) and (len(gained) == 1 or good(together))
    chosen = (together, final[1].median) if kept else (Settings(), final[0].median)
    return Tuning(chosen[0], final[0].median, chosen[1], _summary(found) | _summary(final))


def gains(one: Timing, base: Timing) -> bool:
    """Whether ``one`` is faster beyond noise: in the median, and in nine rounds of ten."""
    ratios = one.ratios(base)
    return bool(np.median(ratios) < GAIN and np.quantile(ratios, 0.9) < 1)


def _candidates(model: Path, provider: str) -> list[Settings]:
    """One change each; an optimizer that changes nothing in this model is not tried."""
    own = _operators(model, provider, Settings())
    alone = [Settings(disabled_optimizers=(name,)) for name in SUSPECTS]
    changed = [one for one in alone if _operators(model, provider, one) != own]
    cores = available_threads()
    fewer = [Settings(threads=n, cores=cores) for n in (cores // 2,) if 1 <= n < cores]
    return [*changed, *fewer, Settings(spinning=False)]


def _operators(model: Path, provider: str, settings: Settings) -> list[str]:
    graph = runtime.optimised(model, provider, settings=settings).graph
    return [node.op_type for node in graph.all_nodes()]


def _variants(candidates: list[Settings], model: Path, provider: str) -> list[Variant]:
    named = [(BASE, Settings()), *((str(one), one) for one in candidates)]
    return [Variant.session(name, model, one, provider) for name, one in named]


def _together(gained: list[Settings]) -> Settings:
    found = Settings()
    for one in gained:
        found = replace(
            found,
            disabled_optimizers=(*found.disabled_optimizers, *one.disabled_optimizers),
            threads=one.threads or found.threads,
            spinning=found.spinning and one.spinning,
            cores=one.cores or found.cores,
        )
    return found


def _summary(found: list[Timing]) -> dict[str, tuple[float, float, float]]:
    base = found[0]
    spread = {one.name: np.quantile(one.ratios(base), (0.5, 0.1, 0.9)) for one in found[1:]}
    return {name: (float(middle), float(low), float(high)) for name, (middle, low, high) in spread.items()}

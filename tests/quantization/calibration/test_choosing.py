"""``auto``: by held-out data, never below minmax."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from quantize_networks import ffn

from gelu_deploy.arrays import Array
from gelu_deploy.gelu import FORMS
from gelu_deploy.quantization.calibration import METHODS, Observation, choose, observe, ranges
from gelu_deploy.quantization.network import Network, Range

SEEN = {"v": Observation.of(np.random.default_rng(0).standard_t(4, 20_000).astype(np.float32))}
BY = {tuple(ranges(SEEN, method)["v"]): method for method in METHODS}


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({"minmax": 30, "percentile": 31, "mse": 33, "entropy": 32}, "mse"),
        ({"minmax": 30, "percentile": 29, "mse": 28, "entropy": 27}, "minmax"),
        ({"minmax": 30, "percentile": 30, "mse": 30, "entropy": 30}, "minmax"),
        ({"minmax": 30, "percentile": float("nan"), "mse": 29, "entropy": float("nan")}, "minmax"),
        ({"minmax": float("nan"), "percentile": 1, "mse": float("nan"), "entropy": 2}, "entropy"),
        (dict.fromkeys(METHODS, float("nan")), "minmax"),
    ],
)
def test_the_best_score_wins(scores: Mapping[str, float], best: str) -> None:
    assert len(BY) == len(METHODS)
    choice = choose(SEEN, lambda found: scores[BY[found["v"]]])
    assert choice.method == best
    assert choice.ranges == ranges(SEEN, choice.method)
    assert str(choice.scores) == str({method: float(scores[method]) for method in METHODS})


def test_minmax_is_always_tried() -> None:
    assert choose(SEEN, lambda found: found["v"][1], ["entropy"]).method == "minmax"


@pytest.mark.parametrize("outliers", [0.0, 32.0])
def test_on_a_network_it_never_loses_to_minmax(outliers: float) -> None:
    network = ffn(width=64, hidden=256, outliers=outliers)
    held, *data = np.random.default_rng(0).standard_t(8, (5, 512, 64)).astype(np.float32)
    seen = observe(network, ["x", "g"], [{"x": x} for x in data])
    choice = choose(seen, lambda found: _judged(network, held, found))
    assert choice.scores[choice.method] == max(choice.scores.values()) >= choice.scores["minmax"]
    assert _judged(network, held, choice.ranges) == choice.scores[choice.method]
    if not outliers:
        assert choice.scores[choice.method] > choice.scores["minmax"] + 1


def _judged(network: Network, x: Array, found: Mapping[str, Range]) -> float:
    """SQNR of the network's outputs with both activations rounded to 8 bits."""
    with network.showing(["h"], optimise=False) as run:
        exact = run({"x": x})
        h = run({"x": _rounded(x, found["x"])})["h"]
    g = np.asarray(FORMS["erf"].reference(h), np.float32)
    y = _rounded(g, found["g"]) @ network.array("fc2.weight") + network.array("fc2.bias")
    return float(10 * np.log10((exact["y"] ** 2).sum() / ((exact["y"] - y) ** 2).sum()))


def _rounded(values: Array, found: Range) -> Array:
    step = (found[1] - found[0]) / 255
    zero = np.round(-found[0] / step)
    rounded: Array = ((np.clip(np.round(values / step) + zero, 0, 255) - zero) * step).astype(np.float32)
    return rounded

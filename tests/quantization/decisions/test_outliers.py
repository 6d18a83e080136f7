"""The guard: it finds wide channels, takes the way that helps most, and does nothing where nothing helps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from quantize_judging import answers, judge, noise, observed, recipe, widened
from quantize_networks import block, conv, feeds, ffn

from gelu_deploy import runtime
from gelu_deploy.quantization.decisions import insert
from gelu_deploy.quantization.decisions.outliers import guarded, outlying, ratio
from gelu_deploy.quantization.network import Network


def test_the_ratio_does_not_move_with_the_number_of_outliers() -> None:
    channels = np.full(3072, 3.0, np.float32)
    assert ratio(channels) == 1
    channels[:2] = 30
    assert ratio(channels) == 10
    channels[:400] = 30
    channels[400:500] = 0
    assert ratio(channels) == 10
    assert ratio(np.zeros(4)) == ratio(np.zeros(0)) == 0


def test_only_layers_behind_a_gelu_are_looked_at_the_widest_first() -> None:
    made = block(width=16, heads=2)
    channels = {layer.input: np.r_[np.ones(15), 100].astype(np.float32) for layer in made.layers}
    assert [layer.node for layer in outlying(made, channels)] == ["mlp.fc2.gemm"]
    assert outlying(made, {}) == []


def test_three_wide_channels_of_the_feed_forward_fixture() -> None:
    made = ffn(outliers=32)
    data, held = list(feeds(made, batch=128)), list(feeds(made, count=1, batch=128, seed=7))
    judged = judge(made, data, held)
    fixed = guarded(made, observed(made, data), judged)
    before, _, after = fixed.notes[0].rpartition(": ")[2].partition(" dB became ")
    assert float(before) < 30
    assert float(after) > 37
    assert fixed.notes[0].startswith("fc2: 2 widest input channels in float: 28.")
    model = insert.static(fixed, recipe(fixed, data, "s8"))
    assert noise(model, answers(made, held), held) > 34  # on a CPU whose kernel saturates too
    ops = [node.op_type for node in runtime.optimised(model).graph]
    kernels = " ".join(op for op in ops if op.startswith("Q") or op == "Gelu")
    assert kernels == "QuantizeLinear QGemm Gelu QuantizeLinear QGemm"
    for right, got in zip(answers(made, held), answers(fixed, held), strict=True):
        assert got["y"] == pytest.approx(right["y"], abs=1e-5)


def test_many_wide_channels_are_scaled() -> None:
    """A tenth of all channels is too many to set apart."""
    made = ffn(width=96, hidden=384)
    bias = made.array("fc1.bias").copy()
    bias[:38] = 40
    made.model.graph.initializers["fc1.bias"].const_value.numpy()[:] = bias  # type: ignore[union-attr]
    data, held = list(feeds(made, count=4, batch=64)), list(feeds(made, batch=64, seed=7))
    judged = judge(made, data, held)
    fixed = guarded(made, observed(made, data), judged)
    assert "input channels scaled, alpha" in fixed.notes[0]
    assert judged(fixed) > judged(made) + 1


def test_a_wide_norm_is_narrowed_without_a_node() -> None:
    made = widened(block())
    data, held = list(feeds(made, count=4, batch=16)), list(feeds(made, batch=16, seed=7))
    judged = judge(made, data, held)
    fixed = guarded(made, observed(made, data), judged)
    assert fixed.notes[0].startswith("channels behind norms scaled, alpha ")
    assert fixed.model.graph.num_nodes() == made.model.graph.num_nodes()
    assert judged(fixed) > judged(made) + 3


@pytest.mark.parametrize("make", [lambda: ffn(width=64, hidden=256), conv], ids=["ffn", "conv"])
def test_without_outliers_nobody_is_asked(make: Callable[[], Network]) -> None:
    made = make()
    seen = observed(made, list(feeds(made, batch=64)))
    assert guarded(made, seen, lambda _: pytest.fail("nobody to judge")) is made


@pytest.mark.parametrize("scores", [[30.0, 30.0], [30.0, 30.2], [30.0, np.nan], [np.inf, 40.0], [-np.inf, -np.inf]])
def test_what_does_not_gain_enough_is_left_alone(scores: list[float]) -> None:
    made = ffn(width=64, hidden=256, outliers=32)
    seen = observed(made, list(feeds(made, batch=64)))
    asked = list[Network]()

    def judged(one: Network) -> float:
        asked.append(one)
        return scores[min(len(asked), 2) - 1]

    assert guarded(made, seen, judged) is made
    assert len(asked) > 2
    assert made.notes == []


def test_a_network_that_broke_is_mended_by_anything() -> None:
    made = ffn(width=64, hidden=256, outliers=32)
    seen = observed(made, list(feeds(made, batch=64)))
    fixed = guarded(made, seen, lambda one: -np.inf if one is made else 20.0)
    assert fixed.notes == ["fc2: input channels scaled, alpha 0.5: -inf dB became 20.00"]

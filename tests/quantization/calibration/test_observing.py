"""What flows through a network: every batch counts, none is kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from quantize_networks import conv, feeds, ffn

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.quantization.calibration import Observation, observe


def split(data: Array, *sizes: int) -> Iterator[Arrays]:
    start = 0
    for size in sizes:
        yield {"x": data[start : start + size]}
        start += size


def alike(one: Observation, two: Observation) -> None:
    np.testing.assert_allclose(
        [one.minimum, one.maximum, one.mean], [two.minimum, two.maximum, two.mean], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(one.channels, two.channels, rtol=1e-5)
    assert one.count == two.count
    assert one.histogram.exponent == two.histogram.exponent


def test_what_is_seen_is_what_there_is() -> None:
    network = ffn(width=16, hidden=64)
    data = list(feeds(network, count=3, batch=5))
    with network.showing(["g"], optimise=False) as run:
        g = np.concatenate([run(feed)["g"] for feed in data])
    x = np.concatenate([feed["x"] for feed in data])
    found = observe(network, ["x", "g"], data)
    assert list(found) == ["x", "g"]
    for name, array in (("x", x), ("g", g)):
        alike(found[name], Observation.of(array))
        np.testing.assert_allclose(found[name].channels, np.abs(array).max(0), rtol=1e-5)
        assert found[name].mean == pytest.approx(array.mean(dtype=np.float64), abs=1e-6)
        assert found[name].histogram.counts.sum() == array.size
        assert found[name].quantile(0.5) == pytest.approx(np.median(np.abs(array)), rel=0.05)
        assert found[name].quantile(1) == pytest.approx(np.abs(array).max())


def test_channels_of_what_a_conv_reads_lie_along_axis_1() -> None:
    network = conv(channels=8, size=12)
    data = list(feeds(network, count=2, batch=3))
    found = observe(network, [layer.input for layer in network.layers], data)
    expected = np.max([np.abs(feed["x"]).max((0, 2, 3)) for feed in data], 0)
    np.testing.assert_array_equal(found["x"].channels, expected)
    assert [found[layer.input].channels.shape for layer in network.layers] == [(3,), (8,), (8,)]


def test_channels_are_empty_where_their_number_differs() -> None:
    one, two = Observation.of(np.ones((2, 3), np.float32)), Observation.of(np.ones((2, 4), np.float32))
    assert one.merged(two).channels.size == 0
    assert one.merged(two).merged(one).channels.size == 0
    assert one.merged(two).count == 14


def test_a_scalar_is_one_channel() -> None:
    assert Observation.of(np.asarray(-3.0, np.float32)).channels.tolist() == [3]


def test_memory_is_that_of_one_batch() -> None:
    network = ffn(width=64, hidden=256)
    random = np.random.default_rng(0)

    def batches() -> Iterator[Arrays]:
        for _ in range(100):
            yield {"x": random.normal(size=(512, 64)).astype(np.float32)}

    one = 512 * (64 + 256) * 4
    tracemalloc.start()
    try:
        found = observe(network, ["x", "g"], batches())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found["g"].count == 100 * 512 * 256
    assert peak < 10 * one


def test_empty_batches_are_passed_over() -> None:
    network = ffn(width=8, hidden=16)
    data = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    alike(observe(network, ["g"], split(data, 0, 4))["g"], observe(network, ["g"], split(data, 4))["g"])
    assert observe(network, ["g"], split(data, 0)) == {}


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_by_the_name_of_its_reader(wrong: float) -> None:
    network = ffn(width=8, hidden=16)
    good = np.ones((2, 8), np.float32)
    bad = good.copy()
    bad[1, 3] = wrong
    with pytest.raises(ModelError, match=r"^fc1 reads 1 of 16 elements .* in batch 2\. The data hold some, in 'x'"):
        observe(network, ["x", "g"], [{"x": good}, {"x": bad}])


def test_what_the_network_itself_makes_infinite_is_told_apart() -> None:
    network = ffn(width=8, hidden=16)
    huge = np.full((2, 8), 3e38, np.float32)
    with pytest.raises(ModelError, match=r"^fc2 reads .* of 32 elements .* in batch 1\. The data are finite"):
        observe(network, ["x", "g"], [{"x": huge}])


def test_data_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="Input 'x' came with shape 2 x 9"):
        observe(ffn(width=8, hidden=16), ["g"], [{"x": np.ones((2, 9), np.float32)}])

"""An interrupted calibration goes on where it stopped; a damaged or foreign file never counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from quantize_networks import feeds, ffn

from gelu_deploy.arrays import Arrays
from gelu_deploy.data import Batch, Dataset
from gelu_deploy.quantization.calibration import Observation, cache, calibrated, observe
from gelu_deploy.quantization.network import Network

VALUES = ["x", "g"]


@pytest.fixture
def network() -> Network:
    return ffn(width=8, hidden=16)


@pytest.fixture
def data(network: Network) -> Dataset:
    batches = [Batch(feed) for feed in feeds(network, count=6, batch=3)]
    return Dataset("made", lambda: batches, divisible=True)


@pytest.fixture(autouse=True)
def at_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SECONDS", 0.0)


class Counting:
    """Batches that count how many the network was run on, and stop after some."""

    def __init__(self, network: Network, stop: int | None = None) -> None:
        self.network, self.stop, self.runs = network, stop, 0
        self.showing = network.showing

    def __enter__(self) -> Self:
        def showing(values: list[str], *, optimise: bool) -> object:
            run = self.showing(values, optimise=optimise)
            inner = run._run

            def counted(arrays: Arrays) -> Arrays:
                if self.runs == self.stop:
                    raise KeyboardInterrupt
                self.runs += 1
                return inner(arrays)

            run._run = counted  # type: ignore[method-assign]
            return run

        self.network.showing = showing  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        self.network.showing = self.showing  # type: ignore[method-assign]


def same(one: dict[str, Observation], two: dict[str, Observation]) -> bool:
    return list(one) == list(two) and all(
        (a.minimum, a.maximum, a.total, a.count) == (b.minimum, b.maximum, b.total, b.count)
        and (a.histogram.exponent, a.histogram.first) == (b.histogram.exponent, b.histogram.first)
        and np.array_equal(a.histogram.counts, b.histogram.counts)
        and np.array_equal(a.channels, b.channels)
        and a.channels.dtype == b.channels.dtype
        for a, b in zip(one.values(), two.values(), strict=True)
    )


def whole(network: Network, data: Dataset) -> dict[str, Observation]:
    return observe(network, VALUES, (batch.inputs for batch in data))


def test_an_interrupted_calibration_goes_on(network: Network, data: Dataset, tmp_path: Path) -> None:
    with Counting(network, stop=4), pytest.raises(KeyboardInterrupt):
        calibrated(network, VALUES, data, tmp_path)
    with Counting(network) as runs:
        found = calibrated(network, VALUES, data, tmp_path)
    assert runs.runs == 2
    assert same(found, whole(network, data))
    with Counting(network) as runs:
        assert same(calibrated(network, VALUES, data, tmp_path), found)
    assert runs.runs == 0
    assert [file.suffix for file in tmp_path.iterdir()] == [".npz"]


def test_it_is_not_kept_unless_a_folder_is_named(network: Network, data: Dataset, tmp_path: Path) -> None:
    assert same(calibrated(network, VALUES, data, None), whole(network, data))
    assert list(tmp_path.iterdir()) == []


def test_every_content_has_its_own_file(network: Network, data: Dataset, tmp_path: Path) -> None:
    other_data = Dataset("made", lambda: list(data)[1:], divisible=True)
    variants = [
        (network, VALUES, data),
        (network, ["x"], data),
        (network, VALUES, other_data),
        (ffn(width=8, hidden=16, seed=1), VALUES, data),
        (ffn(width=8, hidden=16, outliers=1.0), VALUES, data),
        (ffn(width=64, hidden=256), VALUES, data),
        (ffn(width=64, hidden=256, seed=1), VALUES, data),
    ]
    paths = [cache.Cache.of(tmp_path, one, values, batches).path for one, values, batches in variants]
    assert len(set(paths)) == len(variants)
    assert paths[0] == cache.Cache.of(tmp_path, ffn(width=8, hidden=16), VALUES, data).path


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "object"])
def test_a_damaged_file_is_passed_over_with_a_note(
    network: Network, data: Dataset, tmp_path: Path, damage: str
) -> None:
    found = calibrated(network, VALUES, data, tmp_path)
    (path,) = tmp_path.iterdir()
    held = bytearray(path.read_bytes())
    held[len(held) // 3] ^= 0x40
    spoilt = {"cut": bytes(held[: len(held) // 2]), "flip": bytes(held), "empty": b"", "other": b"no archive"}
    if damage in spoilt:
        path.write_bytes(spoilt[damage])
    else:
        np.savez(path, about=np.asarray('{"seen": 1}'))
    with Counting(network) as runs:
        assert same(calibrated(network, VALUES, data, tmp_path), found)
    assert runs.runs == 6
    assert [note.partition("(")[0] for note in network.notes] == [f"the kept calibration {path.name} cannot be read "]
    with Counting(network) as runs:
        calibrated(network, VALUES, data, tmp_path)
    assert runs.runs == 0


def test_where_nothing_can_be_written_it_goes_on_with_a_note(network: Network, data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = calibrated(network, VALUES, data, tmp_path / "file" / "below")
    assert same(found, whole(network, data))
    assert len([note for note in network.notes if note.startswith("the calibration is not kept")]) == 1


def test_a_write_that_fails_leaves_the_old_file(
    network: Network, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated(network, VALUES, data, tmp_path)
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "write_npz", full)
    kept = cache.Cache(tmp_path, path.stem)
    kept.save(1, {}, complete=True)
    assert kept.notes == ["the calibration is not kept: No space left on device"]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_it_is_written_seldom(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SECONDS", 3600.0)
    kept = cache.Cache(tmp_path, "key")

    def batches() -> Iterator[Arrays]:
        for feed in feeds(network, count=3):
            assert not kept.path.exists()
            yield feed

    observe(network, VALUES, batches(), keeping=kept)
    assert kept.path.exists()


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.home() == tmp_path / "gelu-deploy" / "calibration"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.home() == tmp_path / ".cache" / "gelu-deploy" / "calibration"

"""On what variants are judged, and what INT8 ranges are measured on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gelu_deploy.comparison.candidates import Candidate, Ends
from gelu_deploy.comparison.cast import Cast, Data, Network
from gelu_deploy.data import Dataset
from gelu_deploy.options import CompareOptions
from gelu_deploy.results import QuantizeResult
from gelu_deploy.runtime.feeds import Spec

FREE = Ends({"x": Spec("x", ("n", 2), "float32")}, ("y",))
FIXED = Ends({"x": Spec("x", (4, 2), "float32")}, ("y",))


def opened(folder: Path, rows: int, ends: Ends = FREE, **options: str) -> Data:
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    np.savez(folder / "d.npz", x=x, labels=np.arange(rows))
    return Data.opened(CompareOptions(data=str(folder / "d.npz"), **options), ends)  # type: ignore[arg-type]


def rows(data: Dataset) -> set[int]:
    return {int(label) for batch in data for label in (batch.labels if batch.labels is not None else ())}


@pytest.mark.parametrize("count", [10, 450])
def test_a_quarter_is_calibrated_on_and_nothing_is_judged_there(tmp_path: Path, count: int) -> None:
    data = opened(tmp_path, count)
    assert rows(data.judged) | rows(data.calibration) == set(range(count))
    assert not rows(data.judged) & rows(data.calibration)
    assert len(rows(data.calibration)) == pytest.approx(count / 4, abs=20)
    assert data.said.startswith("a quarter of d.npz, on which nothing is judged")
    assert data.judged.name == data.calibration.name == "d.npz"


def test_with_data_of_their_own_all_rows_are_judged(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", x=np.zeros((3, 2), np.float32))
    data = opened(tmp_path, 40, calib_data=str(tmp_path / "c.npz"))
    assert rows(data.judged) == set(range(40))
    assert (data.said, sum(batch.rows for batch in data.calibration)) == ("c.npz", 3)


def test_a_single_row_is_both_and_said_to_be(tmp_path: Path) -> None:
    data = opened(tmp_path, 1)
    assert data.said == "d.npz, on which all are judged, too"
    assert rows(data.judged) == rows(data.calibration) == {0}


def test_one_row_is_timed_or_as_many_as_the_file_must_have(tmp_path: Path) -> None:
    assert opened(tmp_path, 40).rows(1).inputs["x"].tolist() == [[0, 1]]
    assert opened(tmp_path, 40, FIXED).rows(1).rows == 4


def test_the_grids_of_a_network_are_those_of_what_was_quantized_from_its_own_file(tmp_path: Path) -> None:
    def one(name: str, source: str, made: bool = True) -> Candidate:
        result: QuantizeResult = {}  # type: ignore[typeddict-item]
        return Candidate(name, "model", "erf", "int8", source=source, made=result if made else None)

    plain = Candidate("float", "model", "erf", "float", names={"x": "pixels"})
    failed, other, wanted = one("int8", "float", made=False), one("int8 tanh", "float tanh"), one("w8", "float")
    network = Network("model", "m", plain, FREE, original=lambda feeds: {"z": feeds["pixels"]})
    cast = Cast((network,), (plain, failed, other, wanted), FREE, opened(tmp_path, 4))
    assert cast.integer(network) is wanted
    assert cast.twin is None
    assert list(next(iter(cast.judged(plain))).inputs) == ["pixels"]
    assert list(cast.originals["model"]({"x": np.zeros(1)})) == ["y"]

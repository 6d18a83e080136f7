"""Data from a person's own code, and random ones."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx_ir as ir
import pytest
from quantize_networks import Builder

from gelu_deploy.data import open_data, random_data
from gelu_deploy.errors import TargetError, UsageError
from gelu_deploy.runtime.feeds import Spec

ONE = {"x": Spec("x", ("n", 2), "float32")}
TWO = ONE | {"m": Spec("m", ("n",), "int64")}

SOURCE = """
import numpy as np
X, M, Y = np.ones((3, 2), "float32"), np.zeros(3, "int64"), np.arange(3)
def arrays():
    yield X
    yield X[:1] * 2
def pairs():
    return [(X, Y)]
def named():
    return [({"x": X, "m": M, "other": 0}, Y)]
def inside():
    return [{"x": X, "m": M, "y": Y}]
def ordered():
    return [(X, M)]
def labelled():
    return [[X, M, Y]]
def nested():
    return [((X, M), Y)]
def single():
    return {"x": X, "m": M}
def row():
    return [({"x": X[0], "m": M[0]}, 1)]
def fails():
    yield X
    raise RuntimeError("no more disk")
def beside():
    import helper
    yield helper.X
def wrong():
    yield X
    yield X.astype("float64")
class Loader:
    def __iter__(self):
        return iter([X])
loader = Loader()
batches = [X, X]
once = iter(batches)
number = 3
array = X
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "calib.py").write_text(SOURCE)
    (tmp_path / "helper.py").write_text("import numpy as np\nX = np.full((1, 2), 5, 'float32')\n")
    return str(tmp_path / "calib.py")


@pytest.mark.parametrize(
    ("name", "inputs", "rows", "labels"),
    [
        ("arrays", ONE, [3, 1], None),
        ("pairs", ONE, [3], [0, 1, 2]),
        ("named", TWO, [3], [0, 1, 2]),
        ("inside", TWO, [3], [0, 1, 2]),
        ("ordered", TWO, [3], None),
        ("labelled", TWO, [3], [0, 1, 2]),
        ("nested", TWO, [3], [0, 1, 2]),
        ("single", TWO, [3], None),
        ("row", TWO, [1], [1]),
        ("loader", ONE, [3], None),
        ("Loader", ONE, [3], None),
        ("batches", ONE, [3, 3], None),
        ("array", ONE, [3], None),
    ],
)
def test_whatever_it_gives(
    source: str, name: str, inputs: dict[str, Spec], rows: list[int], labels: list[int] | None
) -> None:
    data = open_data(f"{source}:{name}", inputs)
    batches = list(data)
    assert [batch.rows for batch in batches] == rows
    assert all(list(batch.inputs) == list(inputs) for batch in batches)
    found = batches[0].labels
    assert (None if found is None else found.tolist()) == labels
    assert data.name == f"calib.py:{name}"
    assert len(list(data)) == len(rows)
    assert len(data.digest) == 64


def test_batches_are_divided_only_when_asked_or_fixed(source: str) -> None:
    assert [batch.rows for batch in open_data(f"{source}:batches", ONE, batch=2)] == [2, 2, 2]
    fixed = open_data(f"{source}:batches", {"x": Spec("x", (4, 2), "float32")})
    assert [batch.rows for batch in fixed] == [4]
    assert fixed.notes == ["left out 2 rows: they fill no batch of 4, which the model's inputs fix"]


def test_what_lies_beside_the_file_can_be_imported_while_it_runs(source: str) -> None:
    path = list(sys.path)
    reading = iter(open_data(f"{source}:beside", ONE))
    assert next(reading).inputs["x"].tolist() == [[5, 5]]
    assert sys.path == path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "calib.py:fails failed in batch 2: RuntimeError: no more disk"),
        ("number", "calib.py:number is a int: expected a function or something that can be iterated"),
        ("once", "calib.py:once can be read only once"),
        ("wrong", "batch 2 of .*calib.py:wrong: Input 'x' came as float64, expected float32"),
        ("missing", "has no 'missing'"),
    ],
)
def test_what_cannot_be_used_is_refused(source: str, name: str, message: str) -> None:
    with pytest.raises((UsageError, TargetError), match=message):
        list(open_data(f"{source}:{name}", ONE))


def test_too_many_arrays_are_refused(source: str) -> None:
    with pytest.raises(UsageError, match=r"batch 1 of .*: 3 arrays came, the model's inputs are 'x'"):
        list(open_data(f"{source}:labelled", ONE))


def test_random_data_fit_the_model_and_its_table(tmp_path: Path) -> None:
    make = Builder()
    ids = ir.val("ids", ir.DataType.INT64, ("n", "length"))
    rows = make.op("embedded", "Gather", make.normal("table", 5, 8), ids)
    ir.save(make.model([ids], make.op("act", "Gelu", rows)), tmp_path / "m.onnx")
    data = random_data(str(tmp_path / "m.onnx"), 6)
    batches = [batch.inputs["ids"] for batch in data]
    assert len(batches) == data.batches == 6
    assert {int(one) for batch in batches for one in batch.reshape(-1)} == set(range(5))
    assert len({batch.tobytes() for batch in batches}) == 6
    assert data.digest == random_data(str(tmp_path / "m.onnx"), 6).digest
    assert "nothing of your data" in data.notes[0]

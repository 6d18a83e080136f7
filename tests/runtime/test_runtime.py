"""Sessions: what goes in is checked and never changed in value, what runs where is said, a fork is told no."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.runtime import Evaluation, Session, evaluate, optimised
from gelu_deploy.runtime.feeds import Spec

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
DOUBLE = f"{HEAD} g (T[N, 3] x) => (T[N, 3] y) {{ y = Add(x, x) }}"
TWO = f"{HEAD} g (float[batch, 4] a, int64[1] b) => (float[batch, M] y) {{ y = Gather<axis=1>(a, b) }}"
CAST = f"{HEAD} g (T[N] x) => (float[N] y, T[N] z) {{ y = Cast<to=1>(x) z = Identity(x) }}"
X = np.arange(6).reshape(2, 3) + 1


def model(text: str, dtype: str = "float") -> bytes:
    return bytes(ir.to_proto(ir.from_onnx_text(text.replace("T[", f"{dtype}["))).SerializeToString())


@pytest.fixture
def two(tmp_path: Path) -> Session:
    (tmp_path / "two.onnx").write_bytes(model(TWO))
    return Session(tmp_path / "two.onnx")


def good() -> dict[str, Any]:
    return {"a": np.arange(8, dtype=np.float32).reshape(2, 4), "b": np.array([2])}


def test_arrays_in_arrays_out(two: Session) -> None:
    assert two.provider == "cpu"
    assert {name: str(spec) for name, spec in two.inputs.items()} == {"a": "batch x 4:float32", "b": "1:int64"}
    assert two.outputs == {"y": Spec("y", ("batch", 1), "float32")}
    np.testing.assert_array_equal(two(good())["y"], [[2], [6]])


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"b": np.array([2])}, "Input 'a' is missing: 'b' came, the model's inputs are 'a', 'b'."),
        ({}, "Input 'a' is missing: none came, the model's inputs are 'a', 'b'."),
        (good() | {"c": 1}, "There is no input 'c': 'a', 'b', 'c' came, the model's inputs are 'a', 'b'."),
        (
            good() | {"a": np.zeros((2, 4))},
            "Input 'a' came as float64, expected float32. Nothing is converted silently: pass array.astype('float32').",
        ),
        (
            good() | {"a": np.zeros((2, 5), np.float32)},
            "Input 'a' came with shape 2 x 5, expected batch x 4: axis 1 must be 4, not 5.",
        ),
        (
            good() | {"a": np.zeros(4, np.float32)},
            "Input 'a' came with shape 4, expected batch x 4: 2 axes, not 1.",
        ),
        (good() | {"b": np.int64(1)}, "Input 'b' came with shape a scalar, expected 1: 1 axis, not 0."),
    ],
)
def test_what_does_not_fit_is_told_so_that_a_person_understands(
    two: Session, feeds: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        two(feeds)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [None, "text", [[1], [1, 2]], {"a": 1}, np.array([2.0]), np.array([True])])
def test_what_is_no_such_array_is_refused(two: Session, value: object) -> None:
    with pytest.raises(UsageError, match="Input 'b'"):
        two(good() | {"b": value})


def test_a_model_that_fails_says_why_in_one_line(two: Session) -> None:
    with pytest.raises(ModelError, match="out of data bounds") as caught:
        two(good() | {"b": np.array([9])})
    assert "\n" not in str(caught.value)
    assert ".cc" not in str(caught.value)
    assert ".h:" not in str(caught.value)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x,
    "fortran": np.asfortranarray,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": lambda x: np.frombuffer(b"?" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    "empty": lambda x: x[:0],
    "list": lambda x: x.tolist(),
}
TYPES = ["float16", "float", "double", "int8", "uint8", "int32", "int64", "uint32", "uint64", "int16"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_any_layout_gives_the_right_answer(dtype: str, layout: str) -> None:
    run = Evaluation(model(DOUBLE, dtype), optimise=True)
    x = LAYOUTS[layout](X.astype(run.inputs["x"].dtype))
    if isinstance(x, np.ndarray):
        x.flags.writeable = False
    elif np.asarray(x).dtype != run.inputs["x"].dtype:
        with pytest.raises(UsageError):
            run({"x": x})
        return
    np.testing.assert_array_equal(run({"x": x})["y"], 2 * X[: len(x)])


@pytest.mark.parametrize("dtype", ["bfloat16", "float8e4m3fn", "float8e5m2", "float16"])
def test_types_that_numpy_does_not_know(dtype: str) -> None:
    run = Evaluation(model(CAST, dtype), optimise=False)
    x = np.array([1.5, -2.0, 0.25], np.dtype(run.inputs["x"].dtype))[::-1]
    found = run({"x": x})
    np.testing.assert_array_equal(found["y"], x.astype(np.float32))
    assert found["z"].dtype == x.dtype
    np.testing.assert_array_equal(found["z"], x)
    assert run({"x": x[:0]})["z"].shape == (0,)
    with pytest.raises(UsageError, match=f"came as {'float16' if dtype == 'bfloat16' else 'bfloat16'}, expected"):
        run({"x": x.astype(np.float16 if dtype == "bfloat16" else ml_dtypes.bfloat16)})


@pytest.mark.parametrize("array", [np.array(["a", "bc"]), np.array(["a", "bc"], dtype=object)])
def test_strings_pass(array: Any) -> None:
    found = evaluate(
        model(f"{HEAD} g (string[N] x) => (string[N] y) {{ y = Identity(x) }}"), {"x": array}, optimise=True
    )
    assert found["y"].tolist() == ["a", "bc"]


def test_a_large_constant_is_used_where_it_lies() -> None:
    text = f"{HEAD} g (float[N] x, float[M] w) => (float[N] y, int64[1] m) {{ m = Shape(w) y = Add(x, x) }}"
    w = np.zeros(50_000_000, np.float32)
    run = Evaluation(model(text), {"w": w}, optimise=False)
    assert list(run.inputs) == ["x"]
    (held,) = run._constants.values()
    assert np.shares_memory(held, w)
    before = peak()
    assert run({"x": np.ones(1, np.float32)})["m"] == [50_000_000]
    assert peak() - before < 50_000
    with pytest.raises(UsageError, match="There is no input 'v'"):
        Evaluation(model(text), {"v": w}, optimise=False)


def peak() -> int:
    """Most memory ever used by this process, in kB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


GELU = f"""{HEAD} g (float[N, 4] x) => (float[N, 4] y) <float r = {{1.4142135}}, float o = {{1.0}}, float h = {{0.5}}>
{{ d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }}"""


def test_the_graph_that_the_runtime_made_can_be_read(tmp_path: Path) -> None:
    assert [node.op_type for node in optimised(model(GELU)).graph] == ["Gelu"]
    (tmp_path / "model.onnx").write_bytes(model(GELU))
    assert [node.op_type for node in optimised(tmp_path / "model.onnx").graph] == ["Gelu"]
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_optimised_or_not_the_answer_is_the_same() -> None:
    x = np.linspace(-4, 4, 40, dtype=np.float32).reshape(10, 4)
    on, off = (evaluate(model(GELU), {"x": x}, optimise=optimise)["y"] for optimise in (True, False))
    np.testing.assert_allclose(on, off, atol=1e-6)
    assert on.dtype == np.float32
    unfused = evaluate(model(GELU.replace("y)", "y, float[N, 4] e)", 1)), {"x": x}, optimise=False)
    assert set(unfused) == {"y", "e"}


def test_placement_names_every_node() -> None:
    run = Evaluation(
        model(f"{HEAD} g (float[N] x) => (float[N] y) {{ a = Add(x, x) b = Add(a, x) y = Erf(b) }}"), optimise=True
    )
    assert run.placement() == dict.fromkeys(["Add", "Add#1", "Erf"], "CPUExecutionProvider")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is an empty file"),
        (b"hello", "is a text file"),
        (model(DOUBLE)[:-9], "truncated ONNX file"),
        (model(DOUBLE.replace("Add(x, x)", "Foo(x)")), "No Op registered for Foo"),
        (model(DOUBLE.replace("Add(x, x)", "Not(x)")), "invalid"),
        (model(DOUBLE.replace('"": 20', '"": 9999')), "opset"),
    ],
)
def test_what_the_runtime_refuses_is_a_model_error_of_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes, problem: str
) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ModelError, match=f"(?i){problem}") as caught:
        Session(tmp_path / "model.onnx")
    assert str(tmp_path / "model.onnx") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "onnxruntime_src" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_only_tensors_can_be_run() -> None:
    made = onnx.parser.parse_model(f"{HEAD} g (float[N] x) => (seq(float[N]) y) {{ y = SequenceConstruct(x) }}")
    with pytest.raises(ModelError, match="only models whose inputs and outputs are tensors"):
        Evaluation(made.SerializeToString(), optimise=True)


def test_a_model_cannot_configure_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ir.from_onnx_text(DOUBLE.replace("T[", "float["))
    made.metadata_props["ort_config"] = '{"session_options": {"enable_profiling": 1}}'
    ir.save(made, tmp_path / "model.onnx")
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    monkeypatch.chdir(tmp_path)
    with Session("model.onnx") as session:
        session({"x": X.astype(np.float32)})
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_a_closed_session_says_so(two: Session) -> None:
    with two:
        two(good())
    with pytest.raises(UsageError, match="closed"):
        two(good())
    two.close()


def test_threads_may_share_a_session(two: Session) -> None:
    answers = list[Any]()

    def work() -> None:
        answers.extend(two(good())["y"] for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 200
    assert all((answer == [[2], [6]]).all() for answer in answers)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("ending", ["sys.exit(0)", "session.close(); sys.exit(0)", "del session; sys.exit(0)"])
def test_a_fork_is_refused_and_ends_in_peace(tmp_path: Path, threads: int, ending: str) -> None:
    (tmp_path / "model.onnx").write_bytes(model(DOUBLE))
    code = f"""
import os, sys
import numpy as np
from gelu_deploy import Session
from gelu_deploy.errors import UsageError
session = Session({str(tmp_path / "model.onnx")!r}, threads={threads})
x = {{"x": np.ones((1, 3), np.float32)}}
session(x)
pid = os.fork()
if pid == 0:
    try:
        session(x)
    except UsageError as error:
        assert "Open it after the fork" in str(error)
        assert Session({str(tmp_path / "model.onnx")!r})(x)["y"][0, 0] == 2
        {ending}
    os._exit(3)
status = os.waitpid(pid, 0)[1]
session(x)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    environment = {name: value for name, value in os.environ.items() if name not in {"CI", "ORT_DISABLE_TELEMETRY"}}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)
    try:
        assert process.wait(timeout=60) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

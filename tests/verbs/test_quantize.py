"""``quantize``: from a float file to an integer one that tells what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from quantize_networks import Builder, network

import gelu_deploy
from gelu_deploy import artifact
from gelu_deploy.data import open_data
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.options import QuantizeOptions
from gelu_deploy.quantization.measures import coverage
from gelu_deploy.results import QuantizeResult
from gelu_deploy.runtime.feeds import Spec
from gelu_deploy.verbs.quantize import quantize as verb

HERE = Path(__file__).parents[1]
MODELS = HERE.parent / "models"
DIGITS = MODELS / "digits_test.npz"

Quantize = Callable[..., QuantizeResult]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, QuantizeResult]:
    """The digits ViT, quantized with labels: the folder and the result."""
    here = tmp_path_factory.mktemp("digits")
    cached = f"{HERE / 'cached.py'}:dynamo"
    arch = f"{MODELS / 'digits_vit.py'}:digits_vit"
    gelu_deploy.export(MODELS / "digits_vit.pt", arch=arch, output=here / "digits.onnx", exporter=cached)
    return here, gelu_deploy.quantize(
        here / "digits.onnx",
        calib_data=DIGITS,
        data=DIGITS,
        output=here / "int8.onnx",
        calib_cache=here / "cache",
        tune=False,
        guard_outliers=False,
    )


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_the_digits_transformer_passes_and_says_what_it_is(digits: tuple[Path, QuantizeResult]) -> None:
    _, result = digits
    assert (result["verdict"], result["reason"], result["source"]) == ("pass", "", "digits.onnx")
    assert (result["precision"], result["calibration"]["data"]) == ("int8", "digits_test.npz")
    assert result["integer_share"] > 0.9
    assert result["sqnr"] > 38
    assert result["agreement"] > 0.98
    accuracy = result["accuracy"]
    assert accuracy is not None
    assert accuracy["rows"] == 450
    assert accuracy["after"] > accuracy["before"] - 0.01
    assert accuracy["lost"] - accuracy["gained"] == round(450 * (accuracy["before"] - accuracy["after"]))
    assert result["bytes"]["after"] < 0.5 * result["bytes"]["before"]
    assert json.loads(json.dumps(result))["schema"] == "gelu-deploy/quantize/1"


def test_layers_have_pytorch_names_and_only_products_of_activations_are_float(
    digits: tuple[Path, QuantizeResult],
) -> None:
    _, result = digits
    integer = [one for one in result["layers"] if one["integer"]]
    parts = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")
    wanted = ["patches", *(f"blocks.{depth}.{part}" for depth in range(4) for part in parts), "head"]
    assert [one["module"] for one in integer] == wanted
    assert {kernel for one in integer for kernel in one["kernels"]} == {"QGemm"}
    assert min(one["sqnr_alone"] for one in integer) > 35
    assert all(one["sqnr"] <= one["sqnr_alone"] + 1 for one in integer)
    assert {one["reason"] for one in result["layers"] if not one["integer"]} == {coverage.NO_WEIGHT}


def test_every_gelu_says_what_is_left_of_it_below_zero(digits: tuple[Path, QuantizeResult]) -> None:
    _, result = digits
    assert [one["module"] for one in result["lobes"]] == [f"blocks.{depth}.mlp.down" for depth in range(4)]
    assert all(5 < one["codes_below_zero"] < 60 and one["sqnr"] > 20 for one in result["lobes"])


def test_the_file_is_whole_and_a_session_answers_with_it(digits: tuple[Path, QuantizeResult]) -> None:
    here, result = digits
    said = artifact.verify(here / "int8.onnx")
    assert said["quantization"]["source"] == "digits.onnx"
    assert said["quantization"]["integer_share"] == result["integer_share"]
    assert said["verdict"]["verdict"] == "pass"
    assert str(here) not in (here / "int8.onnx").read_bytes().decode("latin1")
    assert [Path(file).name for file in result["files"]] == ["int8.report.json", "int8.onnx"]
    assert json.loads((here / "int8.report.json").read_text())["schema"] == "gelu-deploy/quantize/1"
    with np.load(DIGITS) as held, gelu_deploy.Session(here / "int8.onnx", provider="cpu") as session:
        right = session({"x": held["x"]})["output_0"].argmax(1) == held["labels"]
    assert right.mean() == pytest.approx(result["accuracy"]["after"])  # type: ignore[index]
    found = gelu_deploy.inspect(here / "int8.onnx")
    assert [site["kernels"] for site in found["sites"]] == [["Gelu"]] * 4


@pytest.mark.parametrize(
    ("precision", "kernel", "integer", "decibels"),
    [
        ("dynamic-int8", "DynamicQuantizeMatMul", True, 30),
        ("w8", "MatMulNBits", True, 30),
        ("fp16", "Gemm", False, 60),
    ],
)
def test_other_precisions_need_no_data(
    small: Path, quantize: Quantize, precision: str, kernel: str, integer: bool, decibels: float
) -> None:
    result = quantize(precision=precision, calib_data=None)
    assert result["verdict"] == "pass"
    assert [(one["kernels"], one["integer"]) for one in result["layers"]] == [([kernel], integer)] * 2
    assert result["sqnr"] > decibels
    assert result["calibration"] == {}
    assert result["notes"] == ["random values, seeds 0 to 7: what is measured on them says nothing of your data"]
    assert quantize(precision=precision, overwrite=True)["accuracy"]["rows"] == 16  # type: ignore[index]
    assert artifact.verify(small / "o.onnx")["quantization"]["options"]["precision"] == precision


def test_what_is_excluded_stays_float_and_what_excludes_nothing_is_told(small: Path, quantize: Quantize) -> None:
    result = quantize(exclude=("*2", "blocks.*"))
    assert [(one["module"], one["integer"], one["reason"]) for one in result["layers"]] == [
        ("fc1", True, ""),
        ("fc2", False, coverage.LEFT),
    ]
    assert 0 < result["integer_share"] < 1
    assert "--exclude blocks.* matches no layer; they are fc*" in result["notes"]
    everything = quantize(exclude=("*",), overwrite=True)
    assert (everything["verdict"], everything["reason"]) == ("fail", "not one layer runs in integers")
    assert artifact.verify(small / "o.onnx")["quantization"]["options"]["exclude"] == ["*2", "blocks.*"]


def test_random_calibration_is_said_aloud(small: Path, quantize: Quantize) -> None:
    result = quantize(calib_data=None, random_calibration=True)
    assert result["calibration"]["data"] == "8 random batches"
    assert "random values, seeds 0 to 7: what is measured on them says nothing of your data" in result["notes"]
    assert result["verdict"] == "pass"
    with pytest.raises(UsageError, match=r"--calib-data is missing: .*--random-calibration"):
        quantize(calib_data=None)
    with pytest.raises(UsageError, match="both given"):
        quantize(random_calibration=True)
    assert _files(small) == ["d.npz", "m.onnx", "o.onnx", "o.report.json", "plain.npz"]


def test_a_dry_run_does_everything_and_writes_nothing(small: Path, quantize: Quantize) -> None:
    (small / "o.onnx").write_text("mine")
    result = quantize(dry_run=True)
    assert (result["verdict"], result["files"], result["integer_share"]) == ("pass", [], 1)
    assert result["bytes"]["after"] > 0
    assert _files(small) == ["d.npz", "m.onnx", "o.onnx", "plain.npz"]
    assert (small / "o.onnx").read_text() == "mine"


@pytest.mark.parametrize(
    ("precision", "said"),
    [("int8", "QuantizeLinear"), ("dynamic-int8", "MatMulInteger"), ("w8", "MatMulNBits"), ("fp16", "float16")],
)
def test_what_is_quantized_already_is_refused(small: Path, quantize: Quantize, precision: str, said: str) -> None:
    quantize(precision=precision, correct_bias=False, guard_outliers=False, calib_method="minmax")
    (small / "o.onnx").rename(small / "m.onnx")
    with pytest.raises(ModelError, match=rf"m\.onnx.*{said}.*[Gg]ive the float model"):
        quantize()


def test_the_float_model_is_not_written_over(small: Path, quantize: Quantize) -> None:
    with pytest.raises(UsageError, match="float model itself"):
        quantize(output=small / "cache" / ".." / "m.onnx", overwrite=True)


def test_a_second_run_reads_the_kept_calibration_and_writes_the_same_bytes(
    small: Path, quantize: Quantize, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantize(correct_bias=False, guard_outliers=False)
    first = (small / "o.onnx").read_bytes()
    kept = {path: path.stat().st_mtime_ns for path in (small / "cache").rglob("*.npz")}
    assert kept
    monkeypatch.setattr("gelu_deploy.quantization.calibration.observing._seen", _never)
    quantize(correct_bias=False, guard_outliers=False, overwrite=True)
    assert (small / "o.onnx").read_bytes() == first
    assert {path: path.stat().st_mtime_ns for path in (small / "cache").rglob("*.npz")} == kept


def _never(*_: Any) -> Any:
    pytest.fail("the network was run on all data again")


def test_labels_and_outputs_that_do_not_fit_are_named(small: Path, quantize: Quantize) -> None:
    x = np.zeros((8, 32), np.float32)
    for labels, said in [
        (np.zeros((8, 2), np.int64), r"labels came with shape \(8, 2\).*\(8,\)"),
        (np.full(8, "cat"), "labels came as <U3, expected the numbers of the classes"),
    ]:
        np.savez(small / "wrong.npz", x=x, labels=labels)
        with pytest.raises(UsageError, match=rf"wrong\.npz: {said}"):
            quantize(data=small / "wrong.npz", guard_outliers=False)
    one = Builder()
    given = ir.val("x", ir.DataType.FLOAT, ("n", 32))
    ir.save(network(one.model([given], one.linear("fc", given, 32, 1))).whole(), small / "m.onnx")
    with pytest.raises(UsageError, match="first output is not classes"):
        quantize(max_drop="1%")
    assert quantize(calib_data=small / "plain.npz")["accuracy"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_drop": "a bit"}, "--max-drop a bit: expected points of accuracy"),
        ({"max_drop": "100%"}, "--max-drop 100%"),
        ({"max_drop": "1%", "precision": "w8"}, "for --precision int8, not w8"),
        ({"sensitivity": "all", "precision": "fp16"}, "for --precision int8, not fp16"),
        ({"output": "o.int8"}, "ends in .onnx"),
        ({"time_budget": 0.0}, "--time-budget 0: expected seconds"),
        ({"batch": 0}, "a batch of 0 rows"),
    ],
)
def test_mistakes(small: Path, quantize: Quantize, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        quantize(**options)
    assert _files(small) == ["d.npz", "m.onnx", "plain.npz"]


def test_batches_that_are_open_already_take_the_place_of_a_path(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small / "cache"))
    data = open_data(str(small / "d.npz"), {"x": Spec("x", ("n", 32), "float32")})
    options = QuantizeOptions(output=str(small / "o.onnx"), tune=False, correct_bias=False, guard_outliers=False)
    result = verb(str(small / "m.onnx"), options, data)
    assert (result["verdict"], result["calibration"]["data"]) == ("pass", "d.npz")
    assert result["accuracy"] is not None
    assert result["accuracy"]["rows"] == 16
    with pytest.raises(UsageError, match="--calib-data is missing"):
        verb(str(small / "m.onnx"), options)

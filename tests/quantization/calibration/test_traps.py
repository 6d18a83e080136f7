"""What goes wrong in the tools beneath us when they calibrate, and that it does not here.

Each test shows ONNX Runtime's own calibrator fall into the trap, so that the test says why ours exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnxruntime.quantization import CalibrationMethod, QuantType
from onnxruntime.quantization.calibrate import CalibrationDataReader, create_calibrator
from onnxruntime.quantization.quant_utils import compute_scale_zp, get_qmin_qmax_for_qType
from quantize_networks import feeds, ffn

from gelu_deploy.arrays import Arrays
from gelu_deploy.quantization.calibration import METHODS, observe, ranges
from gelu_deploy.quantization.network import Network, Range

NETWORK = ffn(width=32, hidden=128)
DATA = list(feeds(NETWORK, count=8, batch=64))


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """Batches as ONNX Runtime's calibrators take them."""

    def __init__(self, data: list[Arrays]) -> None:
        self.rest = iter(data)

    def get_next(self) -> Arrays | None:
        return next(self.rest, None)


def theirs(network: Network, data: list[Arrays], folder: Path, method: CalibrationMethod, **options: Any) -> Any:
    """What ONNX Runtime's calibrator says of ``g``."""
    ir.save(network.whole(), folder / "model.onnx")
    calibrator = create_calibrator(
        str(folder / "model.onnx"),
        ["Gemm"],
        augmented_model_path=str(folder / "augmented.onnx"),
        calibrate_method=method,
        extra_options=options,
    )
    calibrator.collect_data(Reader(data))
    return calibrator.compute_data()["g"]


def ours(data: list[Arrays], method: str) -> Range:
    return ranges(observe(NETWORK, ["g"], data), method)["g"]  # type: ignore[arg-type]


def bounds(found: Any) -> Range:
    low, high = (float(np.ravel(bound)[0]) for bound in found.range_value)
    return low, high


def test_1_entropy_has_bins_to_choose_from(tmp_path: Path) -> None:
    """128 bins for 128 codes leave one threshold: ONNX Runtime's entropy is its minmax."""
    widest = theirs(NETWORK, DATA, tmp_path, CalibrationMethod.MinMax)
    entropy = theirs(NETWORK, DATA, tmp_path, CalibrationMethod.Entropy)
    assert bounds(entropy)[1] == pytest.approx(bounds(widest)[1], rel=0.01)
    assert ours(DATA, "minmax")[1] == pytest.approx(bounds(widest)[1])
    assert ours(DATA, "entropy")[1] < 0.95 * ours(DATA, "minmax")[1]


def test_2_no_batch_is_thrown_away(tmp_path: Path) -> None:
    """``CalibMaxIntermediateOutputs`` bounds memory by forgetting batches; ours forgets arrays, not what they held."""
    data = [{"x": feed["x"] * (10 if number == 0 else 1)} for number, feed in enumerate(DATA)]
    forgetful = theirs(NETWORK, data, tmp_path, CalibrationMethod.MinMax, max_intermediate_outputs=3)
    assert bounds(forgetful)[1] < ours(data, "minmax")[1] / 2
    for method in METHODS:
        turned = ours(data[::-1], method)
        assert ours(data, method) == pytest.approx(turned)
    assert ours(data, "minmax")[1] == pytest.approx(max(ours([feed], "minmax")[1] for feed in data))


@pytest.mark.parametrize("method", METHODS)
def test_3_batches_may_have_any_sizes(method: str, tmp_path: Path) -> None:
    """A ragged last batch makes ONNX Runtime's entropy and percentile fail."""
    rows = np.concatenate([feed["x"] for feed in DATA])
    ragged = [{"x": rows[:200]}, {"x": rows[200:501]}, {"x": rows[501:502]}, {"x": rows[502:]}]
    if method in ("entropy", "percentile"):
        with pytest.raises(ValueError, match="inhomogeneous"):
            theirs(NETWORK, ragged, tmp_path, CalibrationMethod[method.capitalize()])
    assert ours(ragged, method) == pytest.approx(ours(DATA, method), rel=1e-5)


def test_4_percentile_clips_little_and_only_above(tmp_path: Path) -> None:
    """ONNX Runtime takes any percentile, on both sides; at 99 the upper end of a GELU loses a third."""
    harsh = bounds(theirs(NETWORK, DATA, tmp_path, CalibrationMethod.Percentile, percentile=99))
    low, high = ours(DATA, "percentile")
    widest = ours(DATA, "minmax")
    assert harsh[1] < 0.75 * widest[1]
    assert low == widest[0]
    assert 0.75 * widest[1] < high < widest[1]


@pytest.mark.parametrize("method", METHODS)
def test_5_what_lies_on_one_side_gets_no_symmetric_range(method: str) -> None:
    """The distribution calibrator gives a GELU as many codes below zero as above."""
    low, high = ours(DATA, method)
    assert -0.18 < low < -0.16
    assert high > 10 * -low


@pytest.mark.parametrize("method", METHODS)
def test_6_the_zero_point_of_a_gelu_is_neither_0_nor_the_middle(method: str) -> None:
    """``ActivationRestrictedAsymmetric`` and ``ActivationSymmetric`` move it to the middle and lose half the codes."""
    low, high = ours(DATA, method)
    least, most = get_qmin_qmax_for_qType(QuantType.QUInt8.tensor_type, symmetric=False)
    zero, scale = compute_scale_zp(np.float32(low), np.float32(high), least, most, symmetric=False)
    assert int(zero) == round(-low / ((high - low) / 255))
    assert 4 <= int(zero) <= 16
    middle, wide = compute_scale_zp(np.float32(low), np.float32(high), least, most, symmetric=True)
    assert int(middle) in (127, 128)
    assert float(wide) > 1.8 * float(scale)


def test_a_generator_is_enough() -> None:
    def batches() -> Iterator[Arrays]:
        yield from DATA

    assert ranges(observe(NETWORK, ["g"], batches()), "minmax")["g"] == ours(DATA, "minmax")

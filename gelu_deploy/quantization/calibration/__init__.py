"""Ranges of what flows through a float network, measured on data.

::

    network, data -observing-> Observation per value -methods-> ranges by minmax, percentile, mse, entropy
                      |  ^            |                              |
                      cache           histogram                      choosing, by what held-out data say of each

Every batch counts, whatever its size, and a batch is forgotten once it is counted. It knows neither ONNX Runtime's
quantizer nor how a range is judged.
"""

from __future__ import annotations

from gelu_deploy.quantization.calibration.cache import calibrated
from gelu_deploy.quantization.calibration.choosing import Choice, choose
from gelu_deploy.quantization.calibration.histogram import Histogram
from gelu_deploy.quantization.calibration.methods import METHODS, Method, ranges
from gelu_deploy.quantization.calibration.observing import Observation, observe

__all__ = [
    "METHODS",
    "Choice",
    "Histogram",
    "Method",
    "Observation",
    "calibrated",
    "choose",
    "observe",
    "ranges",
]

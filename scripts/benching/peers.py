"""Every tool that is compared: how it is called, from what, and how what it made is timed.

It runs nothing: ``workshop`` lets the tools work and ``models`` times them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Precision = Literal["fp32", "int8"]

OURS = "gelu_deploy"
WEIGHTS, REFERENCE = "weights", "answers"
TORCH, OPTIMUM = "torch.onnx", "Optimum"
CUT = 4
"""Rows of one batch that INT8 ranges are measured on."""


@dataclass(frozen=True)
class Peer:
    """One tool, or one way to call it.

    Attributes:
        name: What the tables call it.
        tool: The function of ``making.py`` that makes its file; empty for what runs the file of another.
        source: Name of what it begins with; ``weights`` is the network's folder.
        arguments: Keywords of the function; ``{...}`` in a value is filled in for the network.
        ours: Whether it works in this project's Python, and not in the peers'.
        opener: The function of ``openers.py`` that it is timed with.
    """

    name: str
    tool: str = ""
    source: str = WEIGHTS
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    ours: bool = False
    opener: str = "session"

    @property
    def in_onnxruntime(self) -> bool:
        """Whether its file is run by ONNX Runtime."""
        return self.opener == "session"


_EXAMPLE = {"name": "{name}", "feeds": "{example}"}
_CALIBRATION = {"calibration": "{calibration}", "batch": CUT}

PEERS: Mapping[Precision, tuple[Peer, ...]] = {
    "fp32": (
        Peer(OURS, "gelu_deploy_export", arguments=_EXAMPLE, ours=True),
        Peer(TORCH, "torch_onnx", arguments=_EXAMPLE, ours=True),
        *(
            Peer(f"torch.onnx, opset {n}", "torch_onnx", arguments={**_EXAMPLE, "opset": n}, ours=True)
            for n in (18, 23)
        ),
        Peer("onnxsim", "onnxsim", TORCH),
        Peer("onnxslim", "onnxslim", TORCH),
        Peer("onnxruntime.transformers", "ort_tool", TORCH, {"fusions": "{fusions}"}),
        Peer("onnxscript optimize_for_ort", "onnxscript", TORCH),
        Peer("Optimum O2", "optimum_optimize", OPTIMUM, {"level": "O2"}),
        Peer("Optimum O3", "optimum_optimize", OPTIMUM, {"level": "O3"}),
        Peer("OpenVINO", source=TORCH, opener="openvino"),
        Peer("PyTorch eager", opener="pytorch"),
        Peer("torch.compile", opener="compiled"),
    ),
    "int8": (
        Peer(f"{OURS} INT8", "gelu_deploy_quantize", OURS, _CALIBRATION, ours=True),
        Peer("ONNX Runtime static", "ort_static", TORCH, _CALIBRATION),
        Peer("ONNX Runtime dynamic", "ort_dynamic", TORCH),
        Peer("Optimum dynamic", "optimum_quantize", OPTIMUM, {"cpu": "{cpu}"}),
        Peer(f"{OURS} fp32", source=OURS),
    ),
}
"""What is timed together; this project's own, to which the others' times are set in relation, is the first."""

NOT_TIMED = (
    Peer(WEIGHTS, "weights", "", {"name": "{name}", "tiny": "{tiny}"}, ours=True),
    Peer(REFERENCE, "answers", arguments={"name": "{name}", "feeds": "{batches}"}, ours=True),
    Peer(OPTIMUM, "optimum", arguments={"task": "{task}"}),
)

BY_NAME = {peer.name: peer for peers in (*PEERS.values(), NOT_TIMED) for peer in peers}

"""The CPUs that a model may be meant for: which integers their kernels multiply, and whether a sum may be cut off.

It knows what ONNX Runtime's kernels do on them, and no model. Sources, for the whole table: "Quantize ONNX models" in
ONNX Runtime's documentation (U8U8 and U8S8 on x64, S8S8 on Arm); VPMADDUBSW, VPDPBUSD and SDOT in the manuals of Intel
and Arm; the kernels of MLAS, ``QgemmU8S8KernelAvx2`` and those beside it.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from gelu_deploy.errors import UsageError
from gelu_deploy.quantization.network import Integer

AUTO = "auto"


@dataclass(frozen=True)
class Cpu:
    """What the integer kernels of a kind of CPU work with.

    Attributes:
        name: As ``--target-cpu`` has it.
        activation: Type of activations.
        weight: Type of weights.
        saturates: Whether its u8·s8 kernels add two products in 16 bits, which cuts off what is beyond them.
        flags: What ``/proc/cpuinfo`` says of such a CPU, any of these; the first row that fits is taken.
    """

    name: str
    activation: Integer
    weight: Integer
    saturates: bool
    flags: frozenset[str] = frozenset()

    @property
    def limits(self) -> list[str]:
        """Why no INT8 model is much faster than the float one there; empty where it can be."""
        return [NO_VNNI.format(self.name)] if self.saturates else []


NO_VNNI = "{} has no VNNI: its integer products take hardly less time than float ones"
"""Measured with ONNX Runtime 1.32 on a Zen 2: a 12-layer BERT-base of 128 tokens takes 0.86 of float's time."""

CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("vnni", "u8", "s8", saturates=False, flags=frozenset({"avx512_vnni", "avx_vnni"})),
        Cpu("avx512", "u8", "s8", saturates=True, flags=frozenset({"avx512bw"})),
        Cpu("avx2", "u8", "s8", saturates=True, flags=frozenset({"avx2"})),
        Cpu("arm64", "s8", "s8", saturates=False),
    )
}
"""By name; of the x86 rows the most able first."""


def target(name: str) -> Cpu:
    """The row that ``--target-cpu`` names; ``auto`` is this machine. Raises UsageError."""
    if name == AUTO:
        return here()
    if name not in CPUS:
        raise UsageError(f"--target-cpu {name}: expected {', '.join(sorted(CPUS))} or {AUTO} (this machine)")
    return CPUS[name]


def here(machine: str | None = None, cpuinfo: str | None = None) -> Cpu:
    """This machine; ``avx2``, whose models compute the same on every x86, where it does not say what it is.

    Args:
        machine: What :func:`platform.machine` says of another one.
        cpuinfo: The text of its ``/proc/cpuinfo``.
    """
    if (machine or platform.machine()).lower() in {"arm64", "aarch64"}:
        return CPUS["arm64"]
    flags = set((_cpuinfo() if cpuinfo is None else cpuinfo).split())
    return next((cpu for cpu in CPUS.values() if cpu.flags & flags), CPUS["avx2"])


def _cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="ascii", errors="replace") if path.is_file() else ""

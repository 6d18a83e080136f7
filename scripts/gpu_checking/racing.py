"""How long one network takes in every way to run it, interleaved, and that all ways answer the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gelu_deploy
from gelu_deploy.scoring.metrics import sqnr
from gelu_deploy.target import load
from gelu_deploy.timing.interleaved import Variant, timed

MODELS = Path(__file__).resolve().parents[2] / "models"
OPENERS = "gpu_checking.openers"
NETWORK, WIDTHS, SHAPES = "ffn", {True: 64, False: 1024}, {True: (2, 16), False: (16, 256)}
"""A feed-forward block, and how wide it is and how many tokens it is given: small ones, and those that are timed."""
NEAR = {"float32": 60.0, "float16": 40.0}
"""Decibels by which every way must agree with the first."""
ROUNDS, RUNS = 5, 20


def network_of(name: str, width: int) -> Any:
    """A reference network of a width, its weights fixed."""
    return load(f"{MODELS / name}.py:{name}")(width=width, hidden=4 * width)


def checks(place: Path, provider: str, *, small: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """One race for each type."""
    for dtype in NEAR:
        yield f"latency {dtype}", partial(raced, place, dtype, provider, small=small)


def raced(place: Path, dtype: str, provider: str, *, small: bool) -> tuple[bool, str, dict[str, Any]]:
    """The times of all ways over the first one's; it passes where all answer the same."""
    width, tokens = WIDTHS[small], SHAPES[small]
    x = np.random.default_rng(0).normal(size=(*tokens, width)).astype(dtype)
    np.savez(place / "x.npz", x=x.astype(np.float32))
    out = place / f"raced-{dtype}.onnx"
    result = gelu_deploy.export(
        f"{MODELS / NETWORK}.py:{NETWORK}",
        arch_arg=(f"width={width}", f"hidden={4 * width}"),
        data=str(place / "x.npz"),
        dtype=dtype,
        provider=provider,
        output=str(out),
    )
    if result["verdict"] != "pass":
        return False, f"export: {result['verdict']}: {result['reason']}", {}
    found = timed(list(_ways(out, width, dtype, provider)), {"x": x}, rounds=ROUNDS, runs=RUNS)
    base, first = found[0], next(iter(found[0].answers.values())).astype(np.float64)
    decibels = {one.name: sqnr(first, next(iter(one.answers.values())).astype(np.float64)) for one in found[1:]}
    ratios = {one.name: float(np.median(one.ratios(base))) for one in found[1:]}
    told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    apart = [name for name, value in decibels.items() if not value > NEAR[dtype]]
    more = {"milliseconds": {one.name: one.milliseconds for one in found}, "ratios": ratios, "sqnr": decibels}
    wrong = f"; other answers: {', '.join(apart)}" if apart else ""
    return not apart, f"{base.name} {base.median:.3f} ms; of its time: {told}{wrong}", more


def _ways(model: Path, width: int, dtype: str, provider: str) -> Iterator[Variant]:
    file = {"model": str(model), "provider": provider}
    module = {"network": NETWORK, "width": width, "dtype": dtype, "provider": provider}
    yield Variant("arrays", f"{OPENERS}:session", file, ("onnxruntime",))
    yield Variant("IO binding", f"{OPENERS}:bound", file, ("onnxruntime",))
    if provider != "cpu":
        yield Variant("CUDA graph", f"{OPENERS}:bound", {**file, "graph": True}, ("onnxruntime",))
    yield Variant("PyTorch eager", f"{OPENERS}:pytorch", module, ("torch",))
    yield Variant("torch.compile", f"{OPENERS}:pytorch", {**module, "compiled": True}, ("torch",))

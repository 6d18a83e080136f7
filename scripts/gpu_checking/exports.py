"""Every kind of place for a GELU, in every form and two types: exported, proved and placed on the provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gelu_deploy

MODELS = Path(__file__).resolve().parents[2] / "models"
NETWORKS = ("ffn", "convnext", "geglu", "attention_gelu")
"""A GELU behind a Linear with its bias; behind one over channels last; in a gate; behind attention."""
FORMS = ("keep", "erf", "tanh", "sigmoid")
DTYPES = ("float32", "float16")
ELSEWHERE = {"Shape", "Gather", "Concat", "Reshape", "Unsqueeze", "Squeeze", "Slice", "Cast", "Constant", "Range"}
"""Operators that work on sizes, and may run on the CPU."""


def checks(place: Path, provider: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """One for each file, by its name."""
    for network in NETWORKS:
        for dtype in DTYPES:
            for form in FORMS:
                name = f"{network} {dtype} {form}"
                yield name, partial(exported, place / f"{name.replace(' ', '-')}.onnx", network, form, dtype, provider)


def exported(out: Path, network: str, form: str, dtype: str, provider: str) -> tuple[bool, str, dict[str, Any]]:
    """One file: its verdict, what its GELUs became, and that nothing but sizes is computed off the provider."""
    result = gelu_deploy.export(
        f"{MODELS / network}.py:{network}",
        form=form,
        dtype=dtype,
        provider=provider,
        output=str(out),
        **({} if form == "keep" else {"max_form_error": 1.0}),
    )
    with gelu_deploy.Session(out, provider=provider) as session:
        placed = session.placement()
        wanted = "CPU" if provider == "cpu" else "CUDA"
        off = sorted(name for name, where in placed.items() if not where.startswith(wanted) and not _of_sizes(name))
    kernels = Counter("+".join(site["kernels"]) or site["reason"] for site in result["sites"])
    worst = max((stage["ratio"] for stage in result["stages"]), default=float("nan"))
    told = [
        f"{result['verdict']} {result['reason']}".strip(),
        ", ".join(f"{name} x{count}" for name, count in kernels.items()) or "no GELU",
        f"{worst:.1%} of the tolerance",
        *([f"off the provider: {', '.join(off[:4])}"] if off else []),
    ]
    more = {"kernels": dict(kernels), "tolerance": worst, "placement": dict(Counter(placed.values())), "off": off}
    return result["verdict"] == "pass" and not off, "; ".join(told), more


def _of_sizes(name: str) -> bool:
    return any(operator.lower() in name.lower() for operator in ELSEWHERE)

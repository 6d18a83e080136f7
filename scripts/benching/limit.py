"""``scripts/bench limit``: how near one GELU and one matrix product come to what this machine can do.

A GELU reads and writes memory: its floor is a copy of the same array by all cores. A product's is the highest rate that
any of three libraries reaches on a large square one. Each is a variant in a process of its own, all in turns. It judges
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benching import record
from benching.networks import Arrays
from gelu_deploy.runtime.providers import available_threads
from gelu_deploy.timing.interleaved import Timing, Variant, timed

Shape = tuple[int, ...]
Run = Callable[[Mapping[str, Any]], Arrays]

SITES: dict[str, Shape] = {
    "BERT-base, batch 1": (128, 3072),
    "BERT-base, batch 8": (1024, 3072),
    "beyond the caches": (16384, 3072),
}
"""What a GELU is given: rows and columns."""
PRODUCTS: dict[str, Shape] = {
    "BERT-base up, batch 1": (128, 768, 3072),
    "BERT-base down, batch 1": (128, 3072, 768),
    "BERT-base up, batch 8": (1024, 768, 3072),
    "BERT-base down, batch 8": (1024, 3072, 768),
}
"""Rows, and the weight's two sizes."""
SQUARE: Shape = (2048, 2048, 2048)
COPY, KERNEL = "a copy", "Gelu"
BODIES = {
    KERNEL: "z = Gelu (x)",
    "as torch.onnx writes it at opset 18": (
        "root = Constant <value_float = 1.4142135> () one = Constant <value_float = 1.0> () "
        "half = Constant <value_float = 0.5> () d = Div (x, root) e = Erf (d) a = Add (e, one) "
        "h = Mul (half, a) z = Mul (x, h)"
    ),
}
"""A GELU in one operator and in five."""
PRODUCT = "z = MatMul (x, w)"
TEXT = """<ir_version: 9, opset_import: ["" : 20]> g (float[m, k] x) => (float[one, n] y) {{
{body} first = Constant <value_ints = [0]> () last = Constant <value_ints = [1]> () y = Slice (z, first, last, first)
}}"""
"""One row is the answer: handing all of it over is not the operator's work."""
ROUNDS = 7
SITE_HEADERS = ("GELU", ">elements", "written", ">ms", ">GB/s", ">of a copy's speed")
PRODUCT_HEADERS = ("product", ">sizes", "by", ">ms", ">GFLOP/s", ">of the peak")


def limit(place: Path, python: Path, *, rounds: int = ROUNDS, least: bool = False) -> None:
    """Measure, save and show; ``least`` takes the smallest of each, for a trial."""
    found = record.started("limit", python) | {"rounds": rounds}
    few = slice(1 if least else None)
    found["sites"] = sites(dict([*SITES.items()][few]), rounds)
    square = (256, 256, 256) if least else SQUARE
    found["products"] = products(dict([*PRODUCTS.items()][few]), square, rounds)
    record.save(place, "limit", found)
    print(shown(found))


def sites(shapes: Mapping[str, Shape], rounds: int) -> list[dict[str, Any]]:
    """Every GELU at every size, and the copy that it is held against."""
    variants = dict[tuple[str, str], Variant]()
    for name, shape in shapes.items():
        variants[name, COPY] = _variant(f"{name}: {COPY}", "copy", shape=shape)
        for how, body in BODIES.items():
            variants[name, how] = _variant(f"{name}: {how}", "onnxruntime", body=body, shape=shape)
    times = dict(zip(variants, timed([*variants.values()], {}, rounds=rounds), strict=True))
    return [_site(name, how, shapes[name], time, times[name, COPY]) for (name, how), time in times.items()]


def products(shapes: Mapping[str, Shape], square: Shape, rounds: int) -> list[dict[str, Any]]:
    """The large square product by three libraries, then every product by ONNX Runtime against the best of them."""
    peaks = [_variant(one, one, shape=square) for one in ("numpy", "torch")]
    peaks.append(_variant("onnxruntime", "onnxruntime", body=PRODUCT, shape=square))
    names = list(shapes)
    ours = [_variant(n, "onnxruntime", body=PRODUCT, shape=s) for n, s in shapes.items()]
    times = timed([*peaks, *ours], {}, rounds=rounds)
    best = min(times[: len(peaks)], key=lambda time: time.median)
    rows = [_product("square", one.name, square, one, best, square) for one in times[: len(peaks)]]
    for name, time in zip(names, times[len(peaks) :], strict=True):
        rows.append(_product(name, "onnxruntime", shapes[name], time, best, square))
    return rows


def _variant(name: str, opener: str, **arguments: Any) -> Variant:
    return Variant(name, f"benching.limit:{opener}", arguments)


def copy(shape: Shape) -> Run:
    """Copies an array into memory that it has already, every core a part of it."""
    cores, x = available_threads(), _random(shape)
    pool, y = ThreadPoolExecutor(cores), np.empty_like(x)
    parts = list(zip(np.array_split(y, cores), np.array_split(x, cores), strict=True))

    def run(_: Mapping[str, Any]) -> Arrays:
        list(pool.map(lambda part: np.copyto(*part), parts))
        return {"y": y[:1]}

    return run


def onnxruntime(body: str, shape: Shape) -> Run:
    """Operators from ``x`` to ``z`` in ONNX Runtime; ``w`` is a weight of the last two sizes."""
    from onnx import numpy_helper, parser

    from gelu_deploy import runtime

    model = parser.parse_model(TEXT.format(body=body))
    if "w" in body:
        model.graph.initializer.append(numpy_helper.from_array(_random(shape[1:]), "w"))
    session, x = runtime.Evaluation(model.SerializeToString(), optimise=True), _random(shape[:2])
    return lambda _: session({"x": x})


def numpy(shape: Shape) -> Run:
    """The product by the BLAS that NumPy brings."""
    x, w = _random(shape[:2]), _random(shape[1:])
    return lambda _: {"y": (x @ w)[:1]}


def torch(shape: Shape) -> Run:
    """The product by PyTorch."""
    import torch as library

    library.set_num_threads(available_threads())
    x, w = (library.from_numpy(_random(part)) for part in (shape[:2], shape[1:]))
    return lambda _: {"y": (x @ w)[:1].numpy()}


def _random(shape: Shape) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _site(name: str, how: str, shape: Shape, time: Timing, floor: Timing) -> dict[str, Any]:
    elements = int(np.prod(shape))
    rate = 2 * 4 * elements / time.median / 1e6
    return {"name": name, "how": how, "elements": elements, **_row(time, rate, floor.ratios(time))}


def _product(name: str, how: str, shape: Shape, time: Timing, best: Timing, square: Shape) -> dict[str, Any]:
    work = 2 * float(np.prod(shape))
    shares = best.ratios(time) * work / (2 * float(np.prod(square)))
    sizes = " x ".join(map(str, shape))
    return {"name": name, "how": how, "sizes": sizes, **_row(time, work / time.median / 1e6, shares)}


def _row(time: Timing, rate: float, shares: Any) -> dict[str, Any]:
    return {"milliseconds": time.median, "rate": rate, **record.spread(shares)}


def shown(found: Mapping[str, Any]) -> str:
    """Both tables."""
    sites = [[one["name"], f"{one['elements']:,}", one["how"], *_cells(one)] for one in found["sites"]]
    products = [[one["name"], one["sizes"], one["how"], *_cells(one)] for one in found["products"]]
    return f"{record.table(SITE_HEADERS, sites)}\n\n{record.table(PRODUCT_HEADERS, products)}"


def _cells(row: Mapping[str, Any]) -> list[str]:
    share = f"{row['ratio']:.0%} ({row['low']:.0%} to {row['high']:.0%})"
    return [f"{row['milliseconds']:.3f}", f"{row['rate']:.1f}", share]

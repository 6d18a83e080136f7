"""The tables of the study, as lines of Markdown. It computes means and errors, and judges nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from studying.results import UNITS, Results
from studying.schemes import SCHEMES
from studying.statistics import Paired
from studying.training import Task

TITLES = {
    "gelu": "GELU",
    "relu": "ReLU",
    "leaky_relu": "LeakyReLU",
    "elu": "ELU",
    "float": "float",
    "int8": "`quantize`",
    "dynamic": "`quantize --precision dynamic-int8`",
    "ort": "ORT static",
    "ort softmax": "ORT static, softmax in float",
    "ort symmetric": "ORT static, symmetric",
    "digits": "digits",
    "text": "text",
}
ACTIVATIONS = ("gelu", "relu", "leaky_relu", "elu")
OTHERS = ACTIVATIONS[1:]
INT8 = SCHEMES[1:]


def table(heads: Sequence[str], rows: Iterator[Sequence[str]], names: int = 1) -> Iterator[str]:
    """The first columns are names, the others numbers."""
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join(['---'] * names + ['---:'] * (len(heads) - names))} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def case(task: Task, scheme: str) -> str:
    """``digits, ORT static``."""
    return f"{TITLES[task.name]}, {TITLES[scheme]}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± standard error."""
    found = Paired.of(values)
    return f"{found.mean:.{digits}f} ± {found.error:.{digits}f}"


def mean(found: Paired) -> str:
    """Mean ± standard error, with a sign."""
    return f"{found.mean:+.2f} ± {found.error:.2f}"


def interval(found: Paired) -> str:
    """``-0.10 to +0.32``."""
    return f"{found.low:+.2f} to {found.high:+.2f}"


def side_by_side(results: Results, task: Task) -> Iterator[str]:
    """Every activation in float, and its distance to GELU."""
    worse = ["worse than GELU by", "95 % interval", "p", "could have been seen from"]
    quality = ["accuracy, %"] if task.name == "digits" else ["perplexity per byte", "bits per byte"]

    def rows() -> Iterator[list[str]]:
        for activation in ACTIVATIONS:
            scores = results.scores(task, activation)
            if task.name == "digits":
                cells = [spread(scores)]
            else:
                bits = [score / math.log(2) for score in scores]
                cells = [spread([math.exp(score) for score in scores]), spread(bits, 3)]
            far = [""] * 4
            if activation != "gelu":
                found = results.other(task, activation)
                far = [
                    f"{mean(found)} {UNITS[task.name]}",
                    interval(found),
                    _p(found.p),
                    f"{found.detectable:.2f}",
                ]
            yield [TITLES[activation], *cells, *far]

    yield from table(["activation", *quality, *worse], rows())
    pairs = zip(results.scores(task, "relu"), results.scores(task, "leaky_relu"), strict=True)
    if same := sum(first == second for first, second in pairs):
        yield f"\nReLU and LeakyReLU score the same with {same} of {task.seeds} seeds: a slope of 0.01 changes little."


def _p(probability: float) -> str:
    return "< 0.001" if probability < 0.001 else f"{probability:.3f}"


def by_scheme(cell: Callable[[str, str], str]) -> Iterator[str]:
    """One row for a scheme, one column for an activation."""
    rows = ([TITLES[scheme], *(cell(activation, scheme) for activation in ACTIVATIONS)] for scheme in INT8)
    return table(["INT8 scheme", *(TITLES[activation] for activation in ACTIVATIONS)], rows)


def costs(results: Results, task: Task) -> Iterator[str]:
    """What INT8 costs."""
    return by_scheme(lambda activation, scheme: spread(results.costs(task, activation, scheme)))


def noise(results: Results, task: Task) -> Iterator[str]:
    """How far the logits stand over the noise."""
    return by_scheme(lambda activation, scheme: spread(results.noise(task, activation, scheme), 1))


def gains(results: Results, task: Task) -> Iterator[str]:
    """GELU against each other activation, scheme by scheme."""
    unit = UNITS[task.name]
    costs = [f"INT8 costs it more than GELU by, {unit}", "95 % interval", "could have been seen from"]
    heads = ["INT8 scheme", "against", *costs, "GELU's SQNR is higher by, dB", "95 % interval"]

    def rows() -> Iterator[list[str]]:
        for scheme in INT8:
            for other in OTHERS:
                gain, louder = results.gain(task, other, scheme), results.louder(task, other, scheme)
                cells = [mean(gain), interval(gain), f"{gain.detectable:.2f}", mean(louder), interval(louder)]
                yield [TITLES[scheme], TITLES[other], *cells]

    return table(heads, rows(), names=2)


def tanh(results: Results) -> Iterator[str]:
    """The tanh form in place of exact GELU, scheme by scheme."""
    heads = ["scheme"]
    for task in results.tasks:
        heads += [f"{TITLES[task.name]}: worse by, {UNITS[task.name]}", "95 % interval"]

    def rows() -> Iterator[list[str]]:
        for scheme in SCHEMES:
            found = [results.tanh(task, scheme) for task in results.tasks]
            yield [TITLES[scheme], *(text for one in found for text in (_fine(one), _fine_interval(one)))]

    return table(heads, rows())


def _fine(found: Paired) -> str:
    return f"{found.mean:+.3f} ± {found.error:.3f}"


def _fine_interval(found: Paired) -> str:
    return f"{found.low:+.3f} to {found.high:+.3f}"


def rates(results: Results) -> Iterator[str]:
    """Effective activation rates, site by site."""

    def rows() -> Iterator[list[str]]:
        for task in results.tasks:
            for activation in ("gelu", "relu"):
                for block, site in enumerate(results.rates(task, activation)):
                    cells = [spread(site, 1), f"{min(site):.1f} to {max(site):.1f}"]
                    yield [TITLES[task.name], TITLES[activation], f"blocks.{block}", *cells]

    return table(["task", "activation", "block", "effective, %", "over seeds"], rows(), names=3)

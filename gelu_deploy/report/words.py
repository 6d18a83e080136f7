"""Numbers of a comparison as a reader wants them: few digits, units, a dash for what was not measured.

It knows the parts of a result and nothing of Markdown or HTML.
"""

from __future__ import annotations

import math
import re

from gelu_deploy.results import (
    CompareResult,
    DifferenceResult,
    Estimate,
    LatencyResult,
    MetricResult,
    VariantResult,
)

DASH = "–"
MINUS = "−"
VERDICTS = {"pass": "pass", "fail": "FAIL", "cannot tell": "CANNOT TELL", "": "NO BUDGET"}


def figures(value: float | None, digits: int = 3) -> str:
    """``0.0123``, ``45.6``, ``1,234``, ``1.2e-7``: that many digits, more before the point where there are more."""
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    place = math.floor(math.log10(abs(value)))
    if not -3 <= place < 7:
        return _signed(re.sub(r"e([+-])0*", r"e\1", f"{value:.1e}").replace("e+", "e"))
    return fixed(value, max(0, digits - 1 - place))


def fixed(value: float | None, decimals: int) -> str:
    """That many digits behind the point."""
    if value is None or not math.isfinite(value):
        return figures(value)
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else _signed(text)


def _signed(text: str) -> str:
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def _joined(number: str, unit: str) -> str:
    return number if number == DASH or not unit else f"{number}{'' if unit == '%' else ' '}{unit}"


def share(value: float | None, decimals: int = 1) -> str:
    """A share of 1 in percent."""
    return _joined(fixed(None if value is None else 100 * value, decimals), "%")


def decibels(value: float | None) -> str:
    """With one digit behind the point."""
    return _joined(fixed(value, 1), "dB")


def milliseconds(value: float | None) -> str:
    """Three digits."""
    return _joined(figures(value), "ms")


def times(value: float | None) -> str:
    """A ratio, as ``0.62 ×``."""
    return _joined(figures(value), "×")


def size(count: float | None) -> str:
    """Bytes as ``182 kB`` or ``34.5 MB``; a dash for none."""
    if count is None or math.isnan(count) or count <= 0:
        return DASH
    return f"{figures(count / 1e6)} MB" if count >= 1e6 else f"{figures(count / 1e3)} kB"


def score(value: float | None, metric: MetricResult) -> str:
    """A value of the metric."""
    return share(value, 2) if metric["percent"] else figures(value, 4)


def loss(value: float | None, metric: MetricResult, *, signed: bool = False) -> str:
    """A difference of two values of the metric, of shares in points; ``signed`` shows a plus too."""
    plus = "+" if signed and value is not None and value > 0 else ""
    return plus + _joined(_bare(value, metric), "points" if metric["percent"] else "")


def _bare(value: float | None, metric: MetricResult) -> str:
    if metric["percent"]:
        return fixed(None if value is None else 100 * value, 2)
    return figures(value)


def score_interval(one: Estimate, metric: MetricResult) -> str:
    """``96.10 to 98.90%``."""
    return _to(score(one["low"], metric), score(one["high"], metric))


def loss_interval(one: Estimate, metric: MetricResult) -> str:
    """``−0.20 to 0.82``, without a unit."""
    return f"{_bare(one['low'], metric)} to {_bare(one['high'], metric)}"


def flips(difference: DifferenceResult | None) -> str:
    """Answers lost and gained, where the metric is of right and wrong: ``3 : 2``."""
    if difference is None or not _number(difference["p"]):
        return DASH
    return f"{difference['lost']:,} : {difference['gained']:,}"


def chance(difference: DifferenceResult | None) -> str:
    """McNemar's p, or nothing."""
    if difference is None or not _number(difference["p"]):
        return ""
    return "p < 0.001" if difference["p"] < 0.001 else f"p = {figures(difference['p'], 2)}"


def speed(latency: LatencyResult | None) -> str:
    """The time over that of the float file."""
    return times(None if latency is None else latency["ratio"]["value"])


def speed_interval(latency: LatencyResult) -> str:
    """Its interval."""
    ratio = latency["ratio"]
    return f"{figures(ratio['low'])} to {figures(ratio['high'])}"


def kernels(one: VariantResult) -> list[str]:
    """``4 × Gelu``, a text for each kernel."""
    return [f"{count} × {name}" for name, count in one["kernels"].items()]


def kind(variant: VariantResult) -> str:
    """``model · tanh · int8``, without what says nothing."""
    return " · ".join(part for part in (variant["family"], variant["form"], variant["precision"]) if part)


def _to(low: str, high: str) -> str:
    """``1.2 to 3.4 ms``, with the unit once where it is the same."""
    number, unit = re.fullmatch(r"(.*?)(%| \S+)?", low).groups()  # type: ignore[union-attr]  # all of it is optional
    return f"{number if unit and high.endswith(unit) else low} to {high}"


def _number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def parts(name: str) -> list[str]:
    """A name in pieces between which its line may break."""
    return re.split(r"(?<=[./_+])(?=.)", name)


def last(path: str) -> str:
    """The name of a file without its folders."""
    return path.rstrip("/").rpartition("/")[2]


def verdict(result: CompareResult) -> str:
    """That of the result, or nothing where no budget was given: then nothing is decided."""
    return result["verdict"] if result["gates"] else ""


def headline(result: CompareResult) -> str:
    """The verdict as a sentence."""
    name = result["decision"]
    sentences = {
        "pass": f"{name} may ship",
        "fail": f"{name} must not ship",
        "cannot tell": f"Too early to say whether {name} may ship",
        "": "Nothing is decided",
    }
    return sentences[verdict(result)]


def method(result: CompareResult) -> list[tuple[str, str]]:
    """What was compared, on what, how and where: labels and what there is to say of each."""
    truth = "" if result["labelled"] else "; without labels, the float file’s own answers count as right"
    seconds = ", ".join(f"{name} {took:.1f}" for name, took in result["seconds"].items() if took >= 0.05)
    said = [
        ("model", result["source"]),
        ("twin", result["twin"]),
        ("judged on", f"{result['rows']:,} rows of {result['data']}{truth}"),
        ("calibrated on", result["calibration"]),
        ("metric", f"{result['metric']['name']}, {_better(result['metric'])} is better"),
        ("intervals", f"{result['confidence']:.0%} confidence; differences are paired row by row"),
        *result["machine"].items(),
        ("seconds", seconds),
    ]
    return [(label, text) for label, text in said if text]


def _better(metric: MetricResult) -> str:
    return "higher" if metric["higher_is_better"] else "lower"

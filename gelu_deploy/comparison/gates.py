"""Budgets, and which variant may ship: each budget holds, fails, or cannot be told yet from the data there are.

What was sampled is judged by its whole interval, so that luck with the rows or a noisy machine passes nothing. It
measures nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from gelu_deploy.comparison.latency import HIGH, enough
from gelu_deploy.errors import UsageError
from gelu_deploy.options import CompareOptions
from gelu_deploy.quantization.decisions.mixing import points
from gelu_deploy.results import DifferenceResult, Estimate, GateResult
from gelu_deploy.scoring.metric import Metric

PASS, FAIL, CANNOT_TELL = "pass", "fail", "cannot tell"
DROP, AGREEMENT, P99, SIZE, MEMORY = "max-drop", "min-agreement", "max-p99", "max-size", "max-memory"
MADE = "quantize"
"""The gate at which a variant fails that could not be made."""
TOLD_BY = 15
"""Changed rows from which on the number of rows that are missing is right within 1.5 in nine of ten cases
(docs/intervals.md)."""
UNITS = {"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True)
class Budget:
    """One limit.

    Attributes:
        gate: Its flag, without dashes in front.
        limit: Shares of 1, milliseconds or bytes.
        unit: What stands after a number.
        scale: What a number is multiplied by before it is shown.
        digits: How it is written.
        least: Whether it is the least that is allowed, not the most.
    """

    gate: str
    limit: float
    unit: str
    scale: float = 1.0
    digits: str = ".3g"
    least: bool = False

    def shown(self, value: float) -> str:
        """A number in the unit that a reader has in mind."""
        return f"{value * self.scale:{self.digits}}"


@dataclass(frozen=True)
class Measured:
    """What budgets are held against, of one variant.

    Attributes:
        name: Of the variant.
        failure: Why it could not be made; ``""`` if it was.
        p50: Milliseconds that half of its runs stay below.
        estimates: What was measured, by gate; an exact number has equal ends.
        difference: How much worse it is than float.
        rows: How many rows it was judged on.
        runs: How many runs were timed.
    """

    name: str
    failure: str = ""
    p50: float = math.inf
    estimates: Mapping[str, Estimate] = field(default_factory=dict[str, Estimate])
    difference: DifferenceResult | None = None
    rows: int = 0
    runs: int = 0


def budgets(options: CompareOptions, metric: Metric) -> dict[str, Budget]:
    """What was asked for, by gate. Raises UsageError for what is no such number."""
    return {one.gate: one for one in _parsed(options, metric)}


def exact(value: float) -> Estimate:
    """A number that nothing was sampled for."""
    return Estimate(value=value, low=value, high=value)


def hold(one: Measured, asked: Mapping[str, Budget], confidence: float) -> list[GateResult]:
    """Every budget against one variant; ``confidence`` is that of its intervals."""
    if one.failure:
        return [_result(one.name, MADE, math.nan, exact(math.nan), FAIL, one.failure)]
    return [_held(one, budget, confidence) for budget in asked.values()]


def decide(variants: Sequence[Measured], gates: Sequence[GateResult]) -> tuple[str, str, str]:
    """The variant that may ship, or that is nearest to it; its verdict; and why.

    Of those that could be made, nearest is the one with the fewest budgets failed, then the fewest that cannot be told,
    then the fastest.
    """
    own = {one.name: [gate for gate in gates if gate["variant"] == one.name] for one in variants}

    def standing(one: Measured) -> tuple[bool, int, int, float]:
        verdicts = [gate["verdict"] for gate in own[one.name]]
        return bool(one.failure), verdicts.count(FAIL), verdicts.count(CANNOT_TELL), one.p50

    best = min(variants, key=standing).name
    if not own[best]:
        fastest = f"{best} is the fastest of {len(variants)}" if len(variants) > 1 else f"there is {best}"
        return best, PASS, f"no budget was given, so that nothing is decided; {fastest}"
    failed, unsure = (_told(own[best], verdict) for verdict in (FAIL, CANNOT_TELL))
    if failed:
        return best, FAIL, f"{best} fails {failed}" + (f"; not to be told yet: {unsure}" if unsure else "")
    if unsure:
        return best, CANNOT_TELL, f"{best} cannot be told yet: {unsure}"
    return best, PASS, f"{best} holds {_told(own[best], PASS)}"


def _parsed(options: CompareOptions, metric: Metric) -> Iterator[Budget]:
    if options.max_drop is not None:
        yield _drop(options.max_drop, metric)
    if options.min_agreement is not None:
        yield Budget(AGREEMENT, _share(options.min_agreement), "% of answers the same", 100, ".2f", least=True)
    if options.max_p99 is not None:
        if not 0 < options.max_p99 < math.inf:
            raise UsageError(f"--max-p99 {options.max_p99:g}: expected milliseconds, more than 0")
        yield Budget(P99, options.max_p99, "ms")
    for gate, text in ((SIZE, options.max_size), (MEMORY, options.max_memory)):
        if text is not None:
            yield Budget(gate, _bytes(gate, text), "MB", 1e-6)


def _drop(text: str, metric: Metric) -> Budget:
    number = points(text) / 100 if metric.percent else _number(text)
    if not 0 <= number < math.inf:
        raise UsageError(f"--max-drop {text}: expected a number, as {metric.name} is no share of rows")
    if not number:
        raise UsageError(f"--max-drop {text}: no number of rows can tell that nothing is lost; expected more than 0")
    return (
        Budget(DROP, number, "points lost", 100, ".2f")
        if metric.percent
        else Budget(DROP, number, f"{metric.name} lost")
    )


def _share(text: str) -> float:
    number = _number(text.removesuffix("%")) * (0.01 if text.endswith("%") else 1)
    if not 0 < number < 1:
        raise UsageError(
            f"--min-agreement {text}: expected a share of the answers, such as 99% or 0.99, below 100%: no number of "
            "rows can tell that all are the same"
        )
    return number


def _bytes(gate: str, text: str) -> float:
    match = re.fullmatch(r"([\d.]+) *([A-Za-z]*)", text)
    number = _number(match[1]) * UNITS.get(match[2], math.nan) if match else math.nan
    if not 0 < number < math.inf:
        raise UsageError(f"--{gate} {text}: expected a size, such as 10MB, 500kB or 1.5GiB")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _held(one: Measured, budget: Budget, confidence: float) -> GateResult:
    measured = one.estimates.get(budget.gate)
    if measured is None:
        return _result(one.name, budget.gate, budget.limit, exact(math.nan), CANNOT_TELL, "it could not be measured")
    low, high = (-measured["high"], -measured["low"]) if budget.least else (measured["low"], measured["high"])
    limit = -budget.limit if budget.least else budget.limit
    verdict = PASS if high <= limit else CANNOT_TELL if low <= limit else FAIL  # NaN is not within it
    said = _said(measured, budget) + (f": {_wanted(one, budget, confidence)}" if verdict == CANNOT_TELL else "")
    return _result(one.name, budget.gate, budget.limit, measured, verdict, said)


def _said(measured: Estimate, budget: Budget) -> str:
    value, low, high = (budget.shown(measured[end]) for end in ("value", "low", "high"))
    spread = f" ({low} to {high})" if measured["low"] != measured["high"] else ""
    bound = f"at {'least' if budget.least else 'most'} {budget.shown(budget.limit)}"
    return f"{value}{spread} {budget.unit}, {bound} allowed"


def _wanted(one: Measured, budget: Budget, confidence: float) -> str:
    """What it would take to tell."""
    measured = one.estimates[budget.gate]
    if budget.gate == P99:
        least = enough(HIGH, confidence)
        few = f", {least} at least" if one.runs < least else ""
        return f"{one.runs} runs are too few{few}; --time-budget gives more time for them"
    if budget.gate == AGREEMENT:
        return _answers_wanted(measured["value"], budget.limit, one.rows, confidence)
    gap = one.difference
    if gap is not None and gap["more_rows"]:
        rough = not math.isnan(gap["p"]) and gap["lost"] + gap["gained"] < TOLD_BY
        more = f"{'very roughly' if rough else 'about'} {gap['more_rows']} more"
        return f"{one.rows} rows are too few, {more} would narrow it down to the budget"
    return f"what is lost is so near to the budget that {one.rows} rows cannot tell them apart"


def _answers_wanted(share: float, limit: float, rows: int, confidence: float) -> str:
    """Wilson's interval is within the limit L from ``k² L (1 - L) / (share - L)²`` rows on (Wilson 1927)."""
    k, gap = NormalDist().inv_cdf((1 + confidence) / 2), abs(share - limit)
    total = k * k * limit * (1 - limit) / gap**2 if gap else math.inf
    if rows < total < 100 * rows:
        return f"{rows} rows are too few, about {math.ceil(total - rows)} more would tell if the share stays the same"
    return f"the share is so near to the budget that {rows} rows cannot tell them apart"


def _told(gates: Sequence[GateResult], verdict: str) -> str:
    return "; ".join(f"{one['gate']}: {one['reason']}" for one in gates if one["verdict"] == verdict)


def _result(variant: str, gate: str, limit: float, measured: Estimate, verdict: str, reason: str) -> GateResult:
    return GateResult(variant=variant, gate=gate, limit=limit, measured=measured, verdict=verdict, reason=reason)

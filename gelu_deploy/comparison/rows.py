"""One variant as a row of the table, and as what budgets are held against.

It joins what was measured and what can be read from a file, and decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gelu_deploy import artifact, runtime
from gelu_deploy.arrays import Arrays
from gelu_deploy.comparison import gates
from gelu_deploy.comparison.answering import AGREEMENT, Answered
from gelu_deploy.comparison.candidates import FLOAT, MODEL, Candidate
from gelu_deploy.comparison.gates import Budget, Measured
from gelu_deploy.comparison.latency import Latency
from gelu_deploy.errors import ModelError
from gelu_deploy.graph.opening import read
from gelu_deploy.quantization.measures.coverage import share
from gelu_deploy.results import DifferenceResult, Estimate, VariantResult
from gelu_deploy.scoring import statistics
from gelu_deploy.scoring.metric import Metric

FOLDED = "folded into its neighbours"
"""In the place of a GELU's kernels, where the runtime left nothing under its name."""


@dataclass(frozen=True)
class Table:
    """What all rows have in common.

    Attributes:
        metric: How answers are scored.
        confidence: Of the intervals.
        asked: The budgets, by gate.
        provider: Where everything runs.
        feeds: One run's inputs.
        answers: What each variant that runs answered, by name.
        latencies: How long each took, by name, of those that were timed.
    """

    metric: Metric
    confidence: float
    asked: Mapping[str, Budget]
    provider: str
    feeds: Arrays
    answers: Mapping[str, Answered]
    latencies: Mapping[str, Latency]

    def row(self, one: Candidate) -> VariantResult:
        """A variant's row."""
        answered, taken = self.answers.get(one.name), self.latencies.get(one.name)
        scored = None if answered is None else answered.scores
        used = dict[str, int]()
        if one.path is not None:
            with runtime.Session(one.path, self.provider) as session:
                used = kernels(session)
        return VariantResult(
            name=one.name,
            family=one.family,
            form=one.form,
            precision=one.precision,
            file=one.file,
            score=None if scored is None else statistics.estimate(scored, self.metric, self.confidence),
            difference=self._difference(one),
            agreement=math.nan if answered is None else answered.agreement,
            kl=math.nan if answered is None else answered.kl,
            sqnr=math.nan if answered is None else answered.sqnr,
            bytes=_bytes(one),
            latency=None if taken is None else taken.result,
            memory=0 if taken is None else taken.memory,
            integer_share=integer_share(one, self.feeds, self.provider),
            kernels=used,
            notes=[*one.notes, *([one.failure] if one.failure else []), *_unfused(one, used)],
        )

    def measured(self, one: Candidate, row: VariantResult) -> Measured:
        """The same for budgets."""
        answered, taken = self.answers.get(one.name), self.latencies.get(one.name)
        counted = [] if answered is None else [part for part in (answered.scores, answered.same) if part is not None]
        found = dict[str, Estimate | None]()
        if answered is not None and answered.same is not None:
            found[gates.AGREEMENT] = statistics.estimate(answered.same, AGREEMENT, self.confidence)
        found[gates.DROP] = None if row["difference"] is None else row["difference"]["loss"]
        found[gates.P99] = None if taken is None else taken.high
        found[gates.SIZE] = gates.exact(row["bytes"])
        found[gates.MEMORY] = None if taken is None else gates.exact(taken.memory)
        return Measured(
            name=one.name,
            failure=one.failure,
            p50=math.inf if taken is None else taken.result["p50"],
            estimates={gate: estimate for gate, estimate in found.items() if estimate is not None},
            difference=row["difference"],
            rows=len(counted[0]) if counted else 0,
            runs=0 if taken is None else taken.result["runs"],
        )

    def _difference(self, one: Candidate) -> DifferenceResult | None:
        before, after = self.answers.get(one.against), self.answers.get(one.name)
        if before is None or after is None or before.scores is None or after.scores is None:
            return None
        budget = self.asked[gates.DROP].limit if gates.DROP in self.asked and one.may_ship else None
        return statistics.difference(before.scores, after.scores, self.metric, self.confidence, budget, one.against)


def integer_share(one: Candidate, feeds: Arrays, provider: str) -> float:
    """Share of its multiplications in integer kernels; NaN for PyTorch, and where it cannot be read.

    ``feeds`` are one run's inputs under the names of the model's own file.
    """
    if one.path is None or one.precision == FLOAT:
        return 0.0 if one.precision == FLOAT else math.nan
    said = artifact.metadata(one.path).get("quantization", {})
    if "integer_share" in said:
        return float(said["integer_share"])
    try:
        return share(read(str(one.path)), {one.names.get(name, name): array for name, array in feeds.items()}, provider)
    except ModelError:
        return math.nan


def kernels(session: runtime.Session) -> dict[str, int]:
    """How many GELUs of a file became which kernels: ``{"Gelu": 4}``, or operators joined by ``+``."""
    return dict(Counter("+".join(ops) or FOLDED for ops in session.kernels().values()))


def _bytes(one: Candidate) -> int:
    """Of all its files; 0 for what is none."""
    if one.path is not None:
        return artifact.size(one.path)
    file = Path(one.file)
    return file.stat().st_size if one.file and file.is_file() else 0


def _unfused(one: Candidate, used: Mapping[str, int]) -> list[str]:
    """A note where a float file would be faster in another spelling of the same."""
    spread = sum(count for name, count in used.items() if "+" in name)
    if not spread or one.family != MODEL or one.precision != FLOAT:
        return []
    return [
        f"{spread} of its GELUs run as several operators; gelu-deploy export {one.file} -o OUT.onnx writes each as one"
    ]

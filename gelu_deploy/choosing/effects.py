"""What a change of form does to the answers on a person's data.

It knows files, data and metrics, and nothing of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from gelu_deploy import runtime
from gelu_deploy.comparison.answering import Answered, judged
from gelu_deploy.comparison.candidates import under
from gelu_deploy.data import Batch, Dataset, open_data
from gelu_deploy.errors import UsageError
from gelu_deploy.originals.inputs import opened
from gelu_deploy.results import EffectResult, MetricChange
from gelu_deploy.scoring.metric import Metric, named

OWN = "own"


def effects(
    base: Path, others: Mapping[str, Path], path: str, metric: str | None, names: Mapping[str, str], provider: str
) -> dict[str, EffectResult]:
    """The answers of files held against those of ``base``, on the same rows.

    Args:
        base: The model with its own form.
        others: The same with other forms, by name.
        path: The data, an ``.npz`` with an array per input.
        metric: How answers are scored, against labels in the data if it needs them; None for not at all.
        names: What the files call an input, by its name in the data.
        provider: Where they run.

    Returns:
        By name; empty where the data lack an input.

    Raises:
        UsageError: Data or labels do not fit.
        TargetError: There is no such metric, or it fails.
    """
    with opened(path) as found:
        if not set(names) <= set(found):
            return {}
    with ExitStack() as stack:
        files = {OWN: base, **others}
        runs = {name: stack.enter_context(runtime.Session(file, provider)) for name, file in files.items()}
        specs = {mine: replace(runs[OWN].inputs[theirs], name=mine) for mine, theirs in names.items()}
        data = under(open_data(path, specs), names)
        scored = named("top1" if metric is None else metric)
        rows = judged(runs, dict.fromkeys(others, OWN), data if metric is not None else _bare(data), scored, OWN)
    before, told = rows.answers[OWN], scored if metric is not None else None
    return {name: _effect(rows.rows, before, rows.answers[name], told) for name in others}


def _bare(data: Dataset) -> Dataset:
    """Without labels: what lies under their name may be something else."""
    return Dataset(data.name, lambda: (Batch(one.inputs) for one in data), divisible=data.divisible, notes=data.notes)


def _effect(rows: int, before: Answered, after: Answered, metric: Metric | None) -> EffectResult:
    found = EffectResult(rows=rows, sqnr=after.sqnr)
    if after.same is not None:
        found["agreement"], found["kl"] = after.agreement, after.kl
    if metric is not None:
        found["metric"] = MetricChange(
            name=metric.name, before=_value(before, metric), after=_value(after, metric), percent=metric.percent
        )
    return found


def _value(answered: Answered, metric: Metric) -> float:
    if answered.scores is None:
        raise UsageError(f"--metric {metric.name}: nothing can be scored; the answers are no classes")
    above, below = answered.scores.sum(axis=0)
    if not below:
        raise UsageError(f"--metric {metric.name}: no row counts; are all labels padding (below 0)?")
    return metric.finish(float(above / below))

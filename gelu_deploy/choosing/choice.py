"""``--form auto``: what is asked, measured or found in the cache, decided and explained.

It writes nothing that stays but the cache, and knows neither where a graph came from nor how it is published.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gelu_deploy import sites
from gelu_deploy.arrays import describe
from gelu_deploy.choosing import cache, words
from gelu_deploy.choosing.candidates import KEEP, TARGET, Candidate, Maker
from gelu_deploy.choosing.deciding import Decision, decide
from gelu_deploy.choosing.effects import effects
from gelu_deploy.choosing.files import Shelf
from gelu_deploy.choosing.racing import ROUNDS, SAME, Entry, Race
from gelu_deploy.errors import UsageError
from gelu_deploy.options import ExportOptions
from gelu_deploy.pipeline import Pipeline
from gelu_deploy.progress import step
from gelu_deploy.results import CandidateResult, ChoiceResult, EffectResult
from gelu_deploy.runtime.providers import choose as provided
from gelu_deploy.scoring import metric
from gelu_deploy.targets import Target, named
from gelu_deploy.timing import machine

AUTO = "auto"


class Question(NamedTuple):
    """What is to be chosen for.

    Attributes:
        start: The graph before any pass, which stays as it is.
        options: As of ``export``.
        opset: Operator set to write.
        target: Where it is to run, if that was said.
        names: What the graph calls an input, by its name in ``--data``.
        place: A folder for files that are needed meanwhile.
    """

    start: Pipeline
    options: ExportOptions
    opset: int
    target: Target | None
    names: Mapping[str, str]
    place: Path


def refuse(options: ExportOptions) -> None:
    """What cannot be measured here. Raises UsageError, TargetError, SetupError."""
    if options.metric is not None:
        if options.form != AUTO or options.data is None:
            raise UsageError(f"--metric {options.metric} is what --form auto tells of --data: give all three, or none")
        metric.named(options.metric)
    if options.form != AUTO:
        return
    provider, target = provided(options.provider).name, named(options.target)
    if target is not None and target.name != TARGET.get(provider):
        here = f"--target {TARGET[provider]}" if provider in TARGET else "no target"
        raise UsageError(
            f"--form auto measures on provider {provider} of this machine, which says nothing of --target "
            f"{target.name}; say {here}, or name the form"
        )


def choose(question: Question) -> ChoiceResult | None:
    """Measure, decide and explain; None where the graph has no GELU that may be written anew.

    What was found is what ``question.start`` writes from then on, when its options say ``keep``.

    Raises:
        UsageError, ModelError: What ``keep`` would write cannot be written; the data or the metric do not fit.
        NativeCrash: A candidate cannot be run in a process of its own.
    """
    provider = provided(question.options.provider).name
    question = question._replace(options=replace(question.options, provider=provider))
    with step("choose the form"):
        found = _kept_or_measured(question)
    if found is not None:
        question.start.choices = {name: (one["form"], one["spelling"]) for name, one in found["sites"].items()}
    return found


def _kept_or_measured(question: Question) -> ChoiceResult | None:
    if not question.options.cache:
        return _measured(question)
    file = cache.place(question.start, question.options, question.opset)
    found = cache.load(file)
    if found is not None:
        found["cached"] = True
        found["lines"][-1] = words.measured(found)
        return found
    found = _measured(question)
    if found is not None:
        question.start.notes += cache.save(file, found)
    return found


def _measured(question: Question) -> ChoiceResult | None:
    start, options = question.start, replace(question.options, form=KEEP)
    with tempfile.TemporaryDirectory(dir=question.place) as folder:
        shelf = Shelf(Path(folder), (value.const_value for value in start.held.weights.values()))
        maker = Maker(start, options, question.opset, question.target, shelf)
        competitors = maker.competitors()
        if not competitors:
            return None
        decision = decide(maker, competitors)
        return _result(question, maker, decision, _effects(question, maker.base, decision))


def _effects(question: Question, base: Candidate, decision: Decision) -> dict[Candidate, EffectResult]:
    """Of every candidate with another form than ``base``; equal forms have the same."""
    options, timed = question.options, decision.timings()
    by_forms = {one.forms: one for one in timed if one.forms != base.forms}
    if options.data is None or not by_forms:
        return {}
    files = {str(number): one.file for number, one in enumerate(by_forms.values())}
    try:
        found = effects(base.file, files, options.data, options.metric, question.names, options.provider)
    except UsageError as error:
        if options.metric is not None:
            raise
        question.start.notes.append(f"answers on --data are not compared: {error}")
        return {}
    told = dict(zip(by_forms, found.values(), strict=False))  # none where the data lack an input
    return {one: told[one.forms] for one in timed if one.forms in told}


def _result(
    question: Question, maker: Maker, decision: Decision, found: Mapping[Candidate, EffectResult]
) -> ChoiceResult:
    base, chosen, options = maker.base, decision.chosen, question.options
    result = ChoiceResult(
        lines=[],
        sites={
            name: sites.writing(plan.form, plan.spelling, plan.alpha)
            for name, plan in chosen.plans.items()
            if (plan.form, plan.spelling) != (base.plans[name].form, base.plans[name].spelling)
        },
        chosen=chosen.name,
        tried="" if decision.tried is None else decision.tried.name,
        ratio=decision.ratio,
        offer="" if decision.offer is None else decision.offer.name,
        noise=decision.races[0].noise if decision.races else SAME,
        candidates=[_row(one, *at, found.get(one)) for one, at in decision.timings().items()],
        gelus=len(base.plans),
        shapes=len(maker.groups()),
        own=base.name,
        budget=options.max_form_error,
        data="" if options.data is None else Path(options.data).name,
        feeds={name: describe(array) for name, array in question.start.cases[0].inputs.items()},
        rounds=ROUNDS,
        provider=options.provider,
        machine=machine.here(),
        cached=False,
    )
    result["lines"] = words.lines(result)
    return result


def _row(one: Candidate, heat: Race, entry: Entry, effect: EffectResult | None) -> CandidateResult:
    row = CandidateResult(
        name=one.name,
        forms=sorted(set(one.forms)),
        kernels=list(dict.fromkeys(" + ".join(ops) for ops in one.kernels.values())),
        error=one.error,
        milliseconds=entry.timing.median,
        ratio=heat.ratio(entry),
        gains=heat.beats(entry, heat.entries[0]),
        needs=one.needs,
    )
    if effect is not None:
        row["effect"] = effect
    return row

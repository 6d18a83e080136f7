"""The table of targets as a page for people, ``docs/targets.md``. It writes nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from gelu_deploy import gelu
from gelu_deploy.targets import TARGETS, Target

HEAD = """# Targets

What `export --target NAME` decides, and what each fact rests on. This page is generated from `gelu_deploy/targets`.
"not computed" is a form that no spelling keeps, or that needs an operator which the target lacks. An operator that the
target lacks is written out as simpler ones where that is possible, and otherwise an error names every node of it.
"""


def page() -> str:
    """The whole page."""
    names = list(gelu.FORMS)
    lines = [HEAD, f"| target | opset | up to | {' | '.join(names)} | operators | tried here |"]
    lines.append("| --- |" + " --- |" * (len(names) + 4))
    lines += [_row(target, names) for target in TARGETS.values()]
    return "\n".join([*lines, *(line for target in TARGETS.values() for line in _sources(target))]) + "\n"


def _row(target: Target, names: list[str]) -> str:
    written = target.written(target.opset)
    forms = " | ".join(written.get(name, "not computed") for name in names)
    operators = "all of its opset" if target.operators is None else str(len(target.operators))
    return f"| {target.name} | {target.opset} | {target.newest} | {forms} | {operators} | {target.tried or 'no'} |"


def _sources(target: Target) -> Iterator[str]:
    yield f"\n## {target.name}\n"
    yield from (f"- {fact}: {source}" for fact, source in target.sources.items())
    yield from (f"- {form} written as {spelling} becomes: {what}" for (form, spelling), what in target.instead.items())

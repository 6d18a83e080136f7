"""What to say when a runtime computes another form than was written, and which spelling it computes as written.

It knows the table of measurements and nothing of graphs or runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gelu_deploy import gelu
from gelu_deploy.gelu.spellings import HIDDEN
from gelu_deploy.others.computed import COMPUTED
from gelu_deploy.others.judge import NONE, Nearest
from gelu_deploy.results import SiteResult


def complaint(name: str, rows: Iterable[SiteResult], forms: Mapping[str, Nearest]) -> str:
    """Which GELUs the runtime computes as another form, and what to do; ``""`` if there is none."""
    groups: dict[tuple[str, str, str], list[SiteResult]] = {}
    for row in rows:
        judged = forms.get(row["output"])
        if judged is not None and judged.form != row["form"]:
            spelling = row["written"]["spelling"] if "written" in row else ""
            groups.setdefault((row["form"], judged.form, spelling), []).append(row)
    return "; ".join(_sentence(name, *key, members, forms) for key, members in groups.items())


def _sentence(
    name: str, form: str, computed: str, spelling: str, rows: list[SiteResult], forms: Mapping[str, Nearest]
) -> str:
    off = max(forms[row["output"]].distances[form] for row in rows)
    more = f" and {len(rows) - 1} more are" if len(rows) > 1 else " is"
    what = "no form of GELU" if computed == NONE else f"{computed} ({off:.1e} off {form})"
    module = rows[0]["module"] or rows[0]["output"]
    return f"{module}{more} written as {form} and {name} computes {what}; {advice(name, form, computed, spelling)}"


def advice(name: str, form: str, computed: str, spelling: str = "") -> str:
    """Words for the flags of ``export`` after which the runtime computes what is written.

    Args:
        name: The runtime.
        form: What was written.
        computed: What it computes instead; of other forms the first to be offered.
        spelling: In which of our spellings it was written, if in one: that one is not offered again.
    """
    kept = [one for one in faithful(name, form) if one != spelling]
    if kept:
        return f"--spelling {kept[0]} is computed as written there"
    others = sorted(gelu.FORMS.values(), key=lambda other: (other.name != computed, other.bound))
    for other in others:
        if other.name != form and (ways := faithful(name, other.name)):
            flags = f"--form {other.name} --spelling {ways[0]}"
            return f"no spelling of {form} is computed as written there, {flags} is"
    return "no form has a spelling that is computed as written there"


def faithful(name: str, form: str) -> list[str]:
    """The spellings of a form that the runtime was measured to compute as written."""
    measured = COMPUTED[name]
    return [
        spelling for spelling in gelu.FORMS[form].spellings if spelling != HIDDEN and measured[form, spelling] == form
    ]

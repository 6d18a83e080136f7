"""The numbers of the two articles this project began with, beside what came out here.

It knows the results and nothing of how they were measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gelu_deploy.forms_bench.racing import COMPILED, EAGER, NUMPY, RUNTIME, UNFUSED
from gelu_deploy.results import ClaimResult, FormResult, FormsBenchRow

FASTER = "time that tanh saves"
RELATIVE = "relative error of {}"
AS7127 = "error of A&S 7.1.27"

PAIRS = ((NUMPY, "ops"), (EAGER, "gelu"), (COMPILED, "gelu"), (RUNTIME, "gelu"), (UNFUSED, "ops"))
"""Where both forms are written in the same way."""


def claims(forms: Sequence[FormResult], rows: Sequence[FormsBenchRow]) -> list[ClaimResult]:
    """Every claim, once for each place where it can be tested."""
    by_name = {form["name"]: form for form in forms}
    return [
        *_faster({(row["engine"], row["form"], row["spelling"]): row for row in rows}),
        *_relative(by_name["tanh"], 1.5e-3),
        *_relative(by_name["sigmoid"], 4.2e-3),
        _error(AS7127, "all x", 2.5e-5, by_name["as7127"]["absolute"]["value"]),
    ]


def _faster(rows: dict[tuple[str, str, str], FormsBenchRow]) -> Iterator[ClaimResult]:
    for engine, spelling in PAIRS:
        erf, tanh = rows.get((engine, "erf", spelling)), rows.get((engine, "tanh", spelling))
        if erf is not None and tanh is not None:
            saved = 1 - np.array(tanh["rounds"]) / np.array(erf["rounds"])
            yield ClaimResult(
                claim=FASTER,
                where=f"{engine}, {spelling}",
                said=0.15,
                measured=float(np.median(saved)),
                low=float(saved.min()),
                high=float(saved.max()),
                percent=True,
            )


def _relative(form: FormResult, said: float) -> Iterator[ClaimResult]:
    claim = RELATIVE.format(form["name"])
    yield _error(claim, "x > 0", said, form["relative"]["value"])
    yield _error(claim, "-6 < x < 0", said, form["tail"]["value"])


def _error(claim: str, where: str, said: float, found: float) -> ClaimResult:
    return ClaimResult(claim=claim, where=where, said=said, measured=found, low=found, high=found, percent=False)

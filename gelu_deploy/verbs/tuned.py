"""``--tune``, for every verb that writes a file: the runtime's settings that it is fastest with are stored with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gelu_deploy import artifact
from gelu_deploy.arrays import Array
from gelu_deploy.runtime.settings import KEY, Settings
from gelu_deploy.tuning import tune


def tuned(
    staged: artifact.Stage, feeds: Mapping[str, Array], good: Callable[[Settings], bool], provider: str
) -> dict[str, str]:
    """Measure, and amend the staged file; what was measured, for people.

    Args:
        staged: Written already.
        feeds: Inputs of the size that it will run at.
        good: Whether the answers with some settings are as good as with the runtime's own.
        provider: Where it runs.

    Raises:
        NativeCrash: The file cannot be run in a process of its own.
        OutputError: It cannot be written.
    """
    found = tune(staged.model, feeds, good, provider=provider)
    staged.amend({KEY: found.settings.to_json()})
    ratios = {f"tried {name}": "{:.3f} ({:.3f} to {:.3f})".format(*spread) for name, spread in found.tried.items()}
    took = f"{found.base:.3g}" if found.chosen == found.base else f"{found.chosen:.3g} instead of {found.base:.3g}"
    return {"settings": str(found.settings), "milliseconds": took, **ratios}

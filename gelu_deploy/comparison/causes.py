"""From the original to each quantized variant, one cause of error more in each run.

It knows which causes there are; ``waterfall`` measures them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager

from gelu_deploy.comparison.candidates import Candidate, Ends, Run, renaming
from gelu_deploy.comparison.waterfall import waterfall
from gelu_deploy.data import Batch
from gelu_deploy.quantization.measures.rounding import rounded_weights
from gelu_deploy.results import WaterfallResult

ORIGINAL = "PyTorch"


def waterfalls(
    candidates: Iterable[Candidate],
    runs: Mapping[str, Run],
    originals: Mapping[str, Run],
    ends: Ends,
    data: Iterable[Batch],
    provider: str,
) -> list[WaterfallResult]:
    """One for each quantized variant of the model and of its twin.

    Args:
        candidates: All that are compared.
        runs: Those that run, by name, under the names of ``ends``.
        originals: PyTorch's own network of each family that has one, likewise.
        ends: Of the model's float file.
        data: What they are judged on.
        provider: Where they run.
    """
    found, by_name = list[WaterfallResult](), {one.name: one for one in candidates}
    for one in by_name.values():
        if one.made is not None:
            with _chain(one, by_name, runs, originals, ends, provider) as chain:
                found.append(waterfall(one.name, chain, data))
    return found


@contextmanager
def _chain(
    one: Candidate,
    by_name: Mapping[str, Candidate],
    runs: Mapping[str, Run],
    originals: Mapping[str, Run],
    ends: Ends,
    provider: str,
) -> Generator[list[tuple[str, Run]]]:
    """Names and runs from the original, which is the float file where that came as ONNX, to this variant."""
    source = by_name[one.source]
    assert one.path is not None
    with ExitStack() as stack:
        chain = [(ORIGINAL, originals[one.family])] if one.family in originals else []
        chain.append(("export", runs[source.source or source.name]))
        if source.source:
            chain.append((f"{source.form} form", runs[source.name]))
        rounded = rounded_weights(one.path, provider)
        if rounded is not None:
            chain.append(("weights in 8 bits", renaming(stack.enter_context(rounded), one.names, ends)))
        chain.append((one.precision if rounded is None else "activations in 8 bits", runs[one.name]))
        yield chain

"""``bench``: finished ONNX files in turns, each in a process of its own: how long they take, and what runs where.

It joins what opens files to what times them, and judges nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from gelu_deploy import artifact, runtime
from gelu_deploy.arrays import Arrays, describe
from gelu_deploy.comparison import rows
from gelu_deploy.comparison.candidates import ALSO, Candidate, Ends, form_of, precision_of
from gelu_deploy.comparison.latency import Latency, latencies, need_scipy
from gelu_deploy.data import open_data
from gelu_deploy.errors import UsageError
from gelu_deploy.options import BenchOptions
from gelu_deploy.originals.cases import BATCH, resized
from gelu_deploy.originals.inputs import wanted
from gelu_deploy.originals.onnx_file import OnnxOriginal
from gelu_deploy.progress import recorded, step
from gelu_deploy.results import BenchedFile, BenchResult
from gelu_deploy.runtime.providers import choose
from gelu_deploy.source import require_onnx
from gelu_deploy.timing import machine

SCHEMA = "gelu-deploy/bench/1"
CONFIDENCE = 0.95


def bench(models: Sequence[str], options: BenchOptions) -> BenchResult:
    """Time finished ONNX files in turns, each in a process of its own; see :class:`BenchOptions`.

    Each is opened with the settings of the runtime that are stored in it. Times are set in relation to those of the
    first; the same file given twice says how far equals differ on this machine.

    Raises:
        UsageError: Files with different inputs, data or sizes that do not fit them.
        ModelError: A file is none of ONNX's, is damaged, or the runtime refuses it.
        SetupError: The provider cannot be had, or SciPy is not installed.
        NativeCrash: A file cannot be run in a process of its own.
    """
    provider = _refuse_hopeless(models, options)
    with recorded() as seconds:
        with step("read"):
            for model in models:
                require_onnx(model)
                artifact.verify(model)
            ends = Ends.of(Path(models[0]), provider)
            files = list(_files(models, ends, provider))
            feeds, notes = _feeds(models[0], ends, options)
        with step("time"):
            variants = [one for file in files if (one := file.timed(provider)) is not None]
            taken = latencies(variants, feeds, files[0].name, options.duration, CONFIDENCE)
        with step("look at files"):
            found = [_row(one, taken[one.name], feeds, provider) for one in files]
        return BenchResult(
            schema=SCHEMA,
            provider=provider,
            machine=machine.here(),
            inputs={name: describe(array) for name, array in feeds.items()},
            confidence=CONFIDENCE,
            files=found,
            notes=notes,
            seconds=seconds,
        )


def _refuse_hopeless(models: Sequence[str], options: BenchOptions) -> str:
    """What cannot be meant or had whatever the files are; else the provider's name. Raises UsageError, SetupError."""
    if not models:
        raise UsageError("no file was given; bench takes one ONNX file or more")
    if not 0 < options.duration < math.inf:
        raise UsageError(f"--duration {options.duration:g}: expected seconds, more than 0")
    if options.batch is not None and options.batch < 1:
        raise UsageError(f"--batch {options.batch}: expected a number of rows, 1 or more")
    if options.data is not None and options.input:
        raise UsageError("--data and --input were both given: leave one of them out")
    need_scipy()
    return choose(options.provider).name


def _files(models: Sequence[str], ends: Ends, provider: str) -> Iterator[Candidate]:
    """Every file under a name of its own. Raises UsageError where its inputs are not those of the first."""
    seen = Counter[str]()
    for model in models:
        path = Path(model)
        names = ends.names_in(Ends.of(path, provider), model)
        seen[model] += 1
        name = model if seen[model] == 1 else f"{model} ({seen[model]})"
        yield Candidate(name, ALSO, form_of(path), precision_of(path), file=model, path=path, names=names)


def _feeds(model: str, ends: Ends, options: BenchOptions) -> tuple[Arrays, list[str]]:
    """The inputs of one run under the names of the first file, and what there is to say of them."""
    firsts = [spec.shape[0] for spec in ends.inputs.values() if spec.shape]
    fixed = next((size for size in firsts if isinstance(size, int)), None)
    if options.batch is not None and fixed is not None and options.batch != fixed:
        raise UsageError(f"--batch {options.batch}: {model} takes batches of {fixed} and no others; leave --batch out")
    if options.data is not None:
        data = open_data(options.data, ends.inputs, batch=fixed or options.batch or 1)
        first = next(iter(data), None)
        if first is None:
            raise UsageError(f"--data {options.data} has no batch of {fixed or options.batch or 1}")
        return first.inputs, data.notes
    original = OnnxOriginal(model, {}, wanted(options.input))
    rows = {} if options.batch is None and options.input else {BATCH: options.batch or 1}
    feeds = {name: resized(array, original.axes.get(name, {}), rows) for name, array in original.examples.items()}
    found = "" if options.input else ", sizes of free axes found by trying"
    return feeds, [f"random inputs{found}; times on your own inputs: --data"]


def _row(one: Candidate, taken: Latency, feeds: Arrays, provider: str) -> BenchedFile:
    assert one.path is not None
    with runtime.Session(one.path, provider) as session:
        placement, kernels = dict(Counter(session.placement().values())), rows.kernels(session)
    first = next(iter(feeds.values()), None)
    count = len(first) if first is not None and first.ndim else 1
    return BenchedFile(
        name=one.name,
        form=one.form,
        precision=one.precision,
        bytes=artifact.size(one.path),
        latency=taken.result,
        rows_per_second=1e3 * count / taken.result["p50"],
        memory=taken.memory,
        integer_share=rows.integer_share(one, feeds, provider),
        kernels=kernels,
        placement=placement,
        settings=str(session.settings),
    )

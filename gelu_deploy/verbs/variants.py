"""Every variant that ``compare`` needs, made by ``export`` and ``quantize`` in the folder of the comparison.

It measures nothing.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gelu_deploy import artifact
from gelu_deploy.arrays import Arrays
from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.comparison.answering import rehearsed
from gelu_deploy.comparison.candidates import (
    ALSO,
    FLOAT,
    MODEL,
    PYTORCH,
    TWIN,
    Candidate,
    Ends,
    form_of,
    precision_of,
    under,
)
from gelu_deploy.comparison.cast import Cast, Data, Network
from gelu_deploy.comparison.causes import ORIGINAL
from gelu_deploy.comparison.folder import Folder
from gelu_deploy.data import Dataset
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.flow import RELU
from gelu_deploy.graph.opening import read
from gelu_deploy.options import CompareOptions, ExportOptions, QuantizeOptions, SourceOptions
from gelu_deploy.options.quantizing import PrecisionName
from gelu_deploy.originals import open_original, opener
from gelu_deploy.progress import step
from gelu_deploy.quantization.measures.coverage import quantized
from gelu_deploy.quantization.measures.cpu import AUTO, target
from gelu_deploy.results import ExportResult
from gelu_deploy.scoring.metric import Metric
from gelu_deploy.source import Kind, identify, require_onnx
from gelu_deploy.verbs.export import export
from gelu_deploy.verbs.quantize import quantize

INT8: PrecisionName = "int8"
TRIFLES = ("inputs: ", "not inputs, ")
"""How notes of an export begin that say nothing where its inputs are rows of the data."""


def refuse_sources(model: object, options: CompareOptions) -> None:
    """What cannot be compared whatever is in it, before minutes are spent.

    Raises:
        ModelError: A file is missing, damaged, no model, or quantized where the float one is needed.
        UsageError: Options for PyTorch came with nothing of PyTorch's; a file was given twice.
    """
    given = [model, *([] if options.twin is None else [options.twin])]
    for source in given:
        if isinstance(source, str) and _is_onnx(source):
            _refuse_integers(source)
    flags = {"--arch": options.arch, "--arch-arg": options.arch_arg, "--dtype": options.dtype}
    idle = [flag for flag, value in flags.items() if value]
    if idle and all(map(_is_onnx, given)):
        raise UsageError(f"{' and '.join(idle)} mean something for PyTorch models only; leave them out")
    for file in options.also:
        require_onnx(file)
    if len({Path(file).resolve() for file in options.also}) < len(options.also):
        raise UsageError("--also: the same file was given twice; leave one of them out")


def assembled(model: object, options: CompareOptions, folder: Folder, metric: Metric) -> Cast:
    """Every variant, made where it has to be, and the data.

    Args:
        model: What was given as MODEL.
        options: Of ``compare``.
        folder: Where files are written.
        metric: How answers will be scored.

    Raises:
        ModelError: An export does not compute what its original computes.
        UsageError: The data do not fit or cannot be scored, or a twin or another file has other inputs.
    """
    own = _network(MODEL, model, _opening(options), folder, options.provider)
    data = Data.opened(options, own.ends)
    with own.file.opened(own.ends, options.provider) as run:
        rehearsed(run, data.first, data.judged.name, metric)
    floats, notes = _forms(own, options, data.rows(2).inputs, folder)
    if own.original is not None:
        floats.insert(0, _pytorch(model, _opening(options), own))
    networks = [own]
    if options.twin is not None:
        networks.append(_network(TWIN, options.twin, _opening_twin(options), folder, options.provider, own.ends))
        _refuse_batch(options.twin, networks[-1].ends, own, options)
    twins = [one.file for one in networks[1:]]
    integers = _integers([*floats, *twins], options, data.calibration, folder)
    ours, theirs = ([one for one in integers if (one.family == TWIN) == other] for other in (False, True))
    given = [_finished(file, own, options) for file in options.also]
    candidates = _apart((*floats, *ours, *twins, *theirs, *given))
    return Cast(tuple(networks), candidates, own.ends, data, (*_elsewhere(options), *notes))


def _is_onnx(source: object) -> bool:
    return isinstance(source, str) and identify(source).kind == Kind.ONNX


def _refuse_integers(path: str) -> None:
    """Raises ModelError for a file that cannot be the float one."""
    artifact.verify(path)
    found = ", ".join(sorted(quantized(read(path))))
    if found:
        raise ModelError(
            f"{path} is quantized already: it has {found}. Give the float model, and this file with --also."
        )


def _opening(options: CompareOptions) -> SourceOptions:
    """How MODEL is opened; its example inputs are rows of the data where those are an archive."""
    opening = SourceOptions(**_given(options))
    return opening if options.data.endswith(".npz") else replace(opening, data=None)


def _given(options: SourceOptions) -> dict[str, Any]:
    """What says how a source is opened, by name."""
    return {field.name: getattr(options, field.name) for field in fields(SourceOptions)}


def _opening_twin(options: CompareOptions) -> SourceOptions:
    """How the twin is opened: as MODEL, but for what builds it."""
    assert options.twin is not None
    built = options.arch if identify(options.twin).kind != Kind.TARGET else None
    return replace(_opening(options), arch=options.twin_arch or built, arch_arg=options.twin_arch_arg)


def _network(
    family: str, source: object, opening: SourceOptions, folder: Folder, provider: str, model: Ends | None = None
) -> Network:
    """What was given with its float file, exported if it is not ONNX; ``model`` are the ends that it must have."""
    name = FLOAT if family == MODEL else f"{family} {FLOAT}"
    original, notes = None, list[str]()
    if isinstance(source, str) and _is_onnx(source):
        line, file, path = identify(source).line, source, Path(source)
    else:
        path = folder.stage / _file(name)
        found = export(source, ExportOptions(**_given(opening), output=str(path), provider=provider))
        _require(found, name)
        with step("load"):
            original, _ = open_original(source, opening)
        line, file, notes = found["source"], folder.named(path.name), found["notes"]
    ends = Ends.of(path, provider)
    one = Candidate(
        name=name,
        family=family,
        form=form_of(path),
        precision=FLOAT,
        against="" if original is None or family != MODEL else ORIGINAL,
        file=file,
        path=path,
        names=(model or ends).names_in(ends, file),
        notes=tuple(note for note in notes if not note.startswith(TRIFLES)),
    )
    return Network(family, line, one, ends, None if original is None else original.run)


def _require(found: ExportResult, name: str) -> None:
    if found["verdict"] != "pass":
        raise ModelError(
            f"{name}: the export computes something else, so that nothing can be compared: {found['reason']}"
        )


def _pytorch(model: object, opening: SourceOptions, own: Network) -> Candidate:
    """The original itself."""
    path = model if isinstance(model, str) else ""
    return Candidate(
        name=ORIGINAL,
        family=own.family,
        form=own.file.form,
        precision=PYTORCH,
        file=path,
        original=own.original,
        process=opener.variant(ORIGINAL, path, opening) if path else None,
        notes=() if path else ("a module in memory cannot be timed in a process of its own",),
    )


def _forms(own: Network, options: CompareOptions, rows: Arrays, folder: Folder) -> tuple[list[Candidate], list[str]]:
    """The float file of the model, and it with its GELUs in each other form; a note for each that it has already."""
    made, notes, there = [own.file], list[str](), set(own.file.form.split(", ")) - {RELU, ""}
    for form in dict.fromkeys(options.form):
        if there <= {form}:
            has = f"all GELUs of the model are {form} already" if there else "the model has no GELU"
            notes.append(f"--form {form} makes no other variant: {has}")
        else:
            made.append(_reformed(own.file, form, rows, folder, options.provider))
    return made, notes


def _reformed(one: Candidate, form: str, rows: Arrays, folder: Folder, provider: str) -> Candidate:
    """A float file with its GELUs in another form, proved on a few rows of the data."""
    name = f"{one.name} {form}"
    path = folder.stage / _file(name)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "rows.npz"
        write_npz(data, rows)
        found = export(str(one.path), ExportOptions(output=str(path), form=form, data=str(data), provider=provider))
    _require(found, name)
    made = replace(one, name=name, form=form, source=one.name, against=one.name, path=path, notes=())
    return replace(made, file=folder.named(path.name))


def _integers(
    floats: Sequence[Candidate], options: CompareOptions, calibration: Dataset, folder: Folder
) -> list[Candidate]:
    """Each float file in each precision, all in the same way."""
    files = [one for one in floats if one.path is not None]
    seconds = 2 * options.time_budget / len(files)  # half of it is for what is not asked for here
    made = list[Candidate]()
    for precision in dict.fromkeys(options.precision or (INT8,)):
        ranked = options.sensitivity and precision == INT8
        how = QuantizeOptions(
            precision=precision,
            target_cpu=options.target_cpu,
            sensitivity="layers" if ranked else "none",
            time_budget=seconds,
            tune=options.tune,
        )
        made += [_integer(one, how, under(calibration, one.names), folder) for one in files]
    return made


def _integer(one: Candidate, options: QuantizeOptions, calibration: Dataset, folder: Folder) -> Candidate:
    """A float file quantized; a variant without a file where ``quantize`` refuses it, or its verdict is ``fail``."""
    name = one.name.replace(FLOAT, options.precision)
    path = folder.stage / _file(name)
    try:
        made = quantize(str(one.path), replace(options, output=str(path)), calibration)
    except ModelError as error:
        return Candidate(name, one.family, one.form, options.precision, failure=str(error))
    if made["verdict"] != "pass":
        return Candidate(name, one.family, one.form, options.precision, failure=made["reason"])
    return replace(
        one,
        name=name,
        precision=options.precision,
        source=one.name,
        against=one.source or one.name,
        file=folder.named(path.name),
        path=path,
        made=made,
        notes=(f"opened with {made['runtime']['settings']}",) if made["runtime"] else (),
    )


def _finished(file: str, own: Network, options: CompareOptions) -> Candidate:
    """A file that was given, as it is."""
    path = Path(file)
    ends = Ends.of(path, options.provider)
    names = own.ends.names_in(ends, file)
    _refuse_batch(file, ends, own, options)
    form, precision = form_of(path), precision_of(path)
    return Candidate(path.name, ALSO, form, precision, against=own.file.name, file=file, path=path, names=names)


def _refuse_batch(file: str, ends: Ends, own: Network, options: CompareOptions) -> None:
    """Raises UsageError where a file takes batches of one size only, and the data come in others."""
    fixed, free = (next(iter(one.inputs.values())).shape[:1] for one in (ends, own.ends))
    size = fixed[0] if fixed and isinstance(fixed[0], int) else None
    if size is not None and isinstance(free[0], str) and options.batch != size:
        raise UsageError(f"{file} takes batches of {size} and no others: add --batch {size}")


def _apart(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """With whole paths for the names of given files where there is such a name already."""
    names = Counter(one.name for one in candidates)
    twice = {one.file for one in candidates if one.family == ALSO and names[one.name] > 1}
    return tuple(replace(one, name=str(Path(one.file).resolve())) if one.file in twice else one for one in candidates)


def _file(name: str) -> str:
    return f"{name.replace(' ', '.')}.onnx"


def _elsewhere(options: CompareOptions) -> list[str]:
    """What numbers of this machine do not say of the one that files are made for."""
    wanted, here = target(options.target_cpu), target(AUTO)
    if wanted == here:
        return list(here.limits)
    cut = ", and its integer sums may be cut off here" if here.saturates and not wanted.saturates else ""
    return [f"INT8 files are made for {wanted.name} and measured here on {here.name}: times are not the target's{cut}"]

"""Data for calibration, survey and comparison, whatever they lie in, as batches that fit a model's inputs.

::

    .npz, .npy, folders -files, images-+
    FILE.py:NAME --------------program-+-> pieces -shaping-> batches -dataset-> read again, split, hashed

Nothing is converted silently: types and shapes must be the model's. It knows neither calibration nor metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gelu_deploy.data import files, images, program
from gelu_deploy.data.dataset import Batch, Dataset
from gelu_deploy.data.shaping import ROWS, Plan, plan, regrouped
from gelu_deploy.errors import UsageError
from gelu_deploy.runtime.feeds import Spec

__all__ = ["Batch", "Dataset", "open_data", "random_data"]

Reader = Callable[[], Iterator[Batch]]


def open_data(text: str, inputs: Mapping[str, Spec], *, batch: int | None = None) -> Dataset:
    """The data that ``text`` names, for a model with these inputs.

    Args:
        text: One of: an ``.npz`` with an array per input, and labels under ``labels``, ``label``, ``y`` or ``target``;
            an ``.npy`` for the only input; a folder of ``.npy`` files, each one row or one batch, ``*.npy`` for the
            only input or ``INPUT/*.npy`` with the same names (``labels/*.npy`` too); a folder of .png, .jpg or .bmp
            pictures (subfolders are classes), resized to the model's input, float32 in [0, 1]; ``FILE.py:NAME``, a
            function or iterable that gives batches (see ``program.reader``).
        inputs: Name, shape and type of each.
        batch: Rows of a batch; default: the model's where it is fixed, else 32, else as a program gives them. Where
            the model's is fixed, an incomplete last batch is left out with a note.

    Raises:
        UsageError: There are no such data; while they are read: they do not fit the inputs.
        TargetError: ``FILE.py:NAME`` cannot be loaded; while it is read: it fails.
        SetupError: While it is read: pictures need Pillow.
    """
    if not inputs:
        raise UsageError(f"{text}: the model has no inputs, so that it needs no data.")
    path, wanted, notes = Path(text), plan(inputs, batch), list[str]()
    if not path.exists() and ":" in text:
        return _dataset(text.rpartition("/")[2], program.reader(text, wanted), None, wanted, notes)
    if wanted.batched and not wanted.rows:
        wanted = plan(inputs, ROWS)
    if path.is_dir():
        return _folder(path, wanted, notes)
    if path.suffix == ".npy":
        only = [{files.only(wanted, path.name): path}]
        return _dataset(path.name, lambda: files.folder(only, wanted), None, wanted, notes)
    rows, unknown = files.contents(path, wanted)
    notes += [f"neither inputs nor labels, ignored: {', '.join(unknown)}"] if unknown else []
    return _dataset(path.name, lambda: files.archive(path, wanted), rows, wanted, notes)


def random_data(path: str, count: int = 8) -> Dataset:
    """Seeded random batches for the ONNX file ``path``: standard normal, integers below the table that they index.

    Sizes of free axes are found by trying. Raises ModelError when it runs at none.
    """
    from gelu_deploy.originals.onnx_file import OnnxOriginal

    original = OnnxOriginal(path, {}, {})
    batches = [Batch(original.random(seed)) for seed in range(count)]
    notes = [f"random values, seeds 0 to {count - 1}: what is measured on them says nothing of your data"]
    return Dataset(f"{count} random batches", lambda: batches, divisible=False, batches=count, notes=notes)


def _folder(path: Path, wanted: Plan, notes: list[str]) -> Dataset:
    pictures = images.listed(path)
    if pictures:
        shown = images.frame(wanted)
        notes.append(str(shown))
        rows = len(pictures) if shown.height and shown.width else None
        return _dataset(path.name, lambda: images.read(pictures, shown, wanted), rows, wanted, notes)
    listed = files.listed(path, wanted)
    return _dataset(path.name, lambda: files.folder(listed, wanted), None, wanted, notes)


def _dataset(name: str, read: Reader, rows: int | None, wanted: Plan, notes: list[str]) -> Dataset:
    """The data in batches; their number is known where that of rows is."""
    known = rows is not None and wanted.rows
    batches = (rows or 0) // wanted.rows + (not wanted.fixed and (rows or 0) % wanted.rows > 0) if known else None
    return Dataset(
        name, lambda: regrouped(read(), wanted, notes), divisible=wanted.divisible, batches=batches, notes=notes
    )

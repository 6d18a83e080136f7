"""Keeps a calibration in a file: an interrupted one goes on where it stopped, a finished one is not repeated.

The file is named by what the network, the data and the list of values hold: a change to any of them begins anew. It
appears whole or not at all; one that is damaged is passed over with a note.
"""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gelu_deploy import user_cache
from gelu_deploy.arrays import Array
from gelu_deploy.artifact.golden import write_npz
from gelu_deploy.data import Dataset
from gelu_deploy.graph import hollow
from gelu_deploy.quantization.calibration.histogram import Histogram
from gelu_deploy.quantization.calibration.observing import Observation, observe
from gelu_deploy.quantization.network import Network

VERSION = 1
SECONDS = 5.0
"""Of work that may be lost at most when a calibration is interrupted, beside the batch it is at."""

_NUMBERS = ("minimum", "maximum", "total", "count")


def home() -> Path:
    """Where calibrations are kept unless another folder is named: ``$XDG_CACHE_HOME/gelu-deploy/calibration``."""
    return user_cache.folder("calibration")


class Cache:
    """The file of one calibration.

    Attributes:
        notes: What could not be read or written, a line each.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{key}.npz"
        self.notes = list[str]()
        self._saved = time.monotonic()

    @classmethod
    def of(cls, folder: Path, network: Network, values: Sequence[str], data: Dataset) -> Cache:
        """The one for these values of this network on these data; reads the data once."""
        return cls(folder, key(network, values, data.digest))

    def load(self) -> tuple[int, dict[str, Observation], bool]:
        """Batches seen so far, what was seen, and whether that is all; nothing where there is no sound file."""
        try:
            return _read(self.path)
        except FileNotFoundError:
            return 0, {}, False
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            reason = str(error) or type(error).__name__
            self.notes.append(f"the kept calibration {self.path.name} cannot be read ({reason}): begun anew")
            return 0, {}, False

    def save(self, seen: int, found: Mapping[str, Observation], *, complete: bool) -> None:
        """Keep this in place of what was kept; not yet where the last time is a few seconds ago and more is to come."""
        if not complete and time.monotonic() - self._saved < SECONDS:
            return
        try:
            with user_cache.replacing(self.path) as part:
                write_npz(part, _packed(seen, found, complete=complete))
        except OSError as error:
            note = f"the calibration is not kept: {error.strerror or error}"
            self.notes += [] if note in self.notes else [note]
        self._saved = time.monotonic()


def calibrated(network: Network, values: Sequence[str], data: Dataset, folder: Path | None) -> dict[str, Observation]:
    """:func:`observe`, kept in ``folder`` by what the network and the data hold; not kept where that is None.

    What went wrong with the keeping is noted in ``network.notes``; the calibration itself never fails by it.
    """
    keeping = None if folder is None else Cache.of(folder, network, values, data)
    found = observe(network, values, (batch.inputs for batch in data), keeping=keeping)
    network.notes += [] if keeping is None else keeping.notes
    return found


def key(network: Network, values: Sequence[str], digest: str) -> str:
    """A name for the calibration of these values of this network on data of this digest: SHA-256, in hexadecimal."""
    known = [VERSION, digest, list(values), hollow.digest(network.model, network.held)]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def _packed(seen: int, found: Mapping[str, Observation], *, complete: bool) -> dict[str, Array]:
    arrays = dict[str, Array]()
    entries = list[dict[str, Any]]()
    for number, (name, one) in enumerate(found.items()):
        numbers = {field: getattr(one, field) for field in _NUMBERS}
        entries.append({"name": name, "exponent": one.histogram.exponent, "first": one.histogram.first} | numbers)
        arrays |= {f"{number}/counts": one.histogram.counts, f"{number}/channels": one.channels}
    text = json.dumps({"seen": seen, "complete": complete, "values": entries})
    return arrays | {"about": np.asarray(text)}


def _read(path: Path) -> tuple[int, dict[str, Observation], bool]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        about = json.loads(str(archive["about"]))
        found = dict[str, Observation]()
        for number, entry in enumerate(about["values"]):
            histogram = Histogram(entry["exponent"], entry["first"], archive[f"{number}/counts"])
            numbers = {field: entry[field] for field in _NUMBERS}
            found[entry["name"]] = Observation(**numbers, histogram=histogram, channels=archive[f"{number}/channels"])
        return about["seen"], found, about["complete"]

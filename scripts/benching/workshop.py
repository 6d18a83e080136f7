"""Lets every tool make its file of a network, once: what came of it is kept in a folder under a key.

A tool works in a process of its own (``making.py``), the peers' in the Python that ``scripts/setup --peers`` installs.
One that fails leaves its reason, which is kept too. It times nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benching import making, networks
from benching.networks import Arrays
from benching.peers import BY_NAME, OURS, REFERENCE, WEIGHTS, Peer
from gelu_deploy.quantization.measures.cpu import here

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(making.__file__)
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
MISSING = "the peers are not installed: scripts/setup --peers"
SECONDS = 1800.0
"""What a tool may take for one file."""
CALIBRATION = 16
"""Rows that INT8 ranges are measured on."""
OPTIMUM_CPU = {"vnni": "avx512_vnni"}
"""Optimum's names for kinds of CPU, where they are not this project's."""
_LONGEST = 160  # characters of a reason


@dataclass(frozen=True)
class Made:
    """What a tool made of a network.

    Attributes:
        file: What it wrote, or its folder where that is not one file; empty when it failed.
        reason: Why it failed.
        seconds: What making it took.
        sites: GELUs that are recognised in an ONNX file.
        fused: Operators in it that compute a whole GELU, once ONNX Runtime has optimised it.
    """

    file: str
    reason: str = ""
    seconds: float = 0.0
    sites: int = 0
    fused: int = 0


@dataclass(frozen=True)
class Workshop:
    """One network, and where its files lie.

    Attributes:
        name: Key of ``networks.NETWORKS``.
        place: Folder of everything that is made.
        python: The peers' Python.
        tiny: Whether it is the small network.
        batches: Sizes that answers are wanted for.
    """

    name: str
    place: Path
    python: Path = PEERS_PYTHON
    tiny: bool = False
    batches: tuple[int, ...] = (1, 8)

    def made(self, name: str) -> Made:
        """What the tool of this name made; it works now if it has not yet. A missing environment is not kept."""
        peer = BY_NAME[name]
        if not peer.tool:
            return self.made(peer.source)
        if not peer.ours and not self.python.is_file():
            return Made("", MISSING)
        source = self.made(peer.source) if peer.source else Made(str(self.place))
        if not source.file:
            return Made("", source.reason)
        folder = self.place / "made" / f"{self.name}-{re.sub(r'[^a-z0-9]+', '-', name.lower())}-{self._key(peer)}"
        kept = folder / "made.json"
        if not kept.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(asdict(self._make(peer, source, folder))), encoding="utf-8")
        return Made(**json.loads(kept.read_text(encoding="utf-8")))

    def feeds(self, rows: int) -> Arrays:
        """The inputs that are timed and judged; no range was measured on them."""
        return _arrays(Path(self._feeds(f"batch{rows}", rows)))

    def answers(self, rows: int) -> Any:
        """PyTorch's first output to :meth:`feeds`. Raises RuntimeError."""
        made = self.made(REFERENCE)
        if not made.file:
            raise RuntimeError(f"{self.name}: no answers from PyTorch: {made.reason}")
        return _arrays(Path(made.file) / "answers.npz")[str(self.batches.index(rows))]

    def _key(self, peer: Peer) -> str:
        """Of everything that the file depends on."""
        source = self._key(BY_NAME[peer.source]) if peer.source else _sources(PROGRAM.parent, "networks.py", "mixer.py")
        code = inspect.getsource(getattr(making, peer.tool)) if peer.tool else ""
        own = _sources(ROOT, "gelu_deploy/**/*.py", "exporters/*.py") if peer.name.startswith(OURS) else ""
        pins = _sources(ROOT / "scripts", "constraints*.txt")
        said = json.dumps(
            [self.name, self.tiny, self.batches, peer.tool, dict(peer.arguments), source, code, own, pins]
        )
        return hashlib.sha256(said.encode()).hexdigest()[:12]

    def _make(self, peer: Peer, source: Made, folder: Path) -> Made:
        out = folder / "model.onnx"
        arguments = {key: self._filled(value) for key, value in peer.arguments.items()}
        start = time.perf_counter()
        _, reason = run(sys.executable if peer.ours else str(self.python), peer.tool, source.file, str(out), arguments)
        seconds = time.perf_counter() - start
        if reason or not out.is_file():
            return Made("" if reason else str(folder), reason, seconds)
        said, reason = run(sys.executable, "gelus", str(out), "", {})
        return Made("", f"its file: {reason}", seconds) if reason else Made(str(out), "", seconds, **json.loads(said))

    def _filled(self, value: object) -> object:
        if not isinstance(value, str) or not value.startswith("{"):
            return value
        network = networks.NETWORKS[self.name]
        known: dict[str, Callable[[], object]] = {
            "{name}": lambda: self.name,
            "{tiny}": lambda: self.tiny,
            "{fusions}": lambda: network.fusions,
            "{task}": lambda: network.task,
            "{cpu}": lambda: OPTIMUM_CPU.get(here().name, here().name),
            "{example}": lambda: self._feeds("example", 2),
            "{calibration}": lambda: self._feeds("calibration", CALIBRATION),
            "{batches}": lambda: [self._feeds(f"batch{rows}", rows) for rows in self.batches],
        }
        return known[value]()

    def _feeds(self, kind: str, rows: int) -> str:
        """A file of random inputs; every kind has its own numbers."""
        file = Path(self.made(WEIGHTS).file) / f"{kind}.npz"
        if not file.is_file():
            seed = int.from_bytes(kind.encode(), "big")
            np.savez(file, **networks.feeds(self.name, rows, tiny=self.tiny, seed=seed))  # type: ignore[arg-type]
        return str(file)


def run(python: str, tool: str, source: str, out: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """Let one function of ``making.py`` work; what it printed last, and the reason if it failed."""
    command = [python, str(PROGRAM), tool, source, out, json.dumps(arguments)]
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    try:
        done = subprocess.run(  # noqa: S603  # our own program
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return "", f"it did not finish within {SECONDS:g} s"
    said = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == 0:
        return said, ""
    last = done.stderr.strip().rpartition("\n")[2].strip() or f"it ended with exit code {done.returncode}"
    last = re.sub(r"(?<![\w/:.])(?:/[\w.-]+)+/", "", last)  # where files of this machine lie
    return said, last if len(last) <= _LONGEST else f"{last[:_LONGEST]}…"


def _arrays(file: Path) -> Arrays:
    with np.load(file) as archive:
        return {name: archive[name] for name in archive.files}


@cache
def _sources(folder: Path, *patterns: str) -> str:
    """A digest of files."""
    digest = hashlib.sha256()
    for file in sorted(file for pattern in patterns for file in folder.glob(pattern)):
        digest.update(file.read_bytes())
    return digest.hexdigest()

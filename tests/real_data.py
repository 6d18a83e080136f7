"""Data with known truth for the real models of ``real_models``: files by kind for magika, rendered lines for PP-OCR.

It takes what is on the machine (files whose name says their kind, DejaVu fonts of the matplotlib package), in a fixed
order, and knows nothing of sessions or quantization.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import real_models
from numpy.typing import NDArray

KINDS = {
    "c": "c", "cpp": "cpp", "css": "css", "csv": "csv", "elf": "elf", "gif": "gif", "go": "go", "h": "c",
    "html": "html", "ini": "ini", "java": "java", "jpg": "jpeg", "js": "javascript", "json": "json", "md": "markdown",
    "npy": "npy", "npz": "npz", "onnx": "onnx", "pdf": "pdf", "php": "php", "pl": "perl", "png": "png",
    "proto": "proto", "ps1": "powershell", "py": "python", "pyc": "pythonbytecode", "rb": "ruby", "rs": "rust",
    "rst": "rst", "sh": "shell", "so": "elf", "sql": "sql", "svg": "svg", "tcl": "tcl", "tiff": "tiff",
    "toml": "toml", "ts": "typescript", "ttf": "ttf", "wav": "wav", "woff": "woff", "woff2": "woff2", "xml": "xml",
    "yaml": "yaml", "yml": "yaml", "zip": "zip",
}  # fmt: skip
"""Ending of a file's name -> magika's label."""
BLOCK, ENDS, PADDING, LEAST = 4096, 1024, 256, 8
"""magika's reading: bytes read from either end, bytes kept of each, what fills a short file, bytes below which none."""


def magika_labels() -> list[str]:
    """magika's labels in the order of its output."""
    config = real_models.magika().with_name("config.min.json")
    found: list[str] = json.loads(config.read_text())["target_labels_space"]
    return found


def labelled_files(count: int, *, seed: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """``count`` files of this machine: magika's input int32 [count, 2048], and its label by the file's name [count].

    The kinds take turns, so that no kind is more than its share while there are others.
    """
    labels, found = magika_labels(), dict[str, list[Path]]()
    for path in _files():
        found.setdefault(path.suffix[1:].lower(), []).append(path)
    order = random.Random(seed)
    for files in found.values():
        order.shuffle(files)
    features, truth = list[NDArray[np.int32]](), list[int]()
    for kind, path in _in_turn(found):
        read = _magika_input(path)
        if read is not None:
            features.append(read)
            truth.append(labels.index(KINDS[kind]))
        if len(truth) == count:
            return np.stack(features), np.array(truth)
    raise RuntimeError(f"this machine has only {len(truth)} files of known kinds, {count} were asked for")


def ocr_characters(model: Path) -> list[str]:
    """The characters of PP-OCR's classes: class 0 is the blank."""
    import onnx

    held = next(p.value for p in onnx.load(model, load_external_data=False).metadata_props if p.key == "character")
    return ["", *held.split("\n"), " "]


def ocr_lines(count: int, *, seed: int = 0, width: int = 320) -> tuple[NDArray[np.float32], list[str]]:
    """Rendered, noisy lines: float32 [count, 3, 48, width] as PP-OCR wants them (-1 to 1), and what they say."""
    from PIL import Image, ImageDraw, ImageFont

    chooser, noise = random.Random(seed), np.random.default_rng(seed)
    words, fonts = _words(), _fonts()
    images, texts = list[NDArray[np.float32]](), list[str]()
    while len(texts) < count:
        font = ImageFont.truetype(chooser.choice(fonts), chooser.randint(24, 34))
        text = " ".join(chooser.choice(words) for _ in range(chooser.randint(1, 3)))
        left, top, right, bottom = font.getbbox(text)
        if right - left > width - 16:
            continue
        ground, ink = chooser.randint(170, 255), chooser.randint(0, 120)
        picture = Image.new("L", (width, 48), ground)
        ImageDraw.Draw(picture).text((8 - left, (48 - bottom - top) / 2), text, fill=ink, font=font)
        grey = np.asarray(picture, np.float32) + noise.normal(0, chooser.uniform(4, 40), (48, width))
        images.append(np.repeat((grey[None] / 127.5 - 1).clip(-1, 1), 3, axis=0).astype(np.float32))
        texts.append(text)
    return np.stack(images), texts


def ocr_read(outputs: NDArray[np.floating], characters: Sequence[str]) -> list[str]:
    """Texts from [N, steps, classes]: the best class of each step, repetitions and blanks taken out."""
    texts = list[str]()
    for steps in outputs.argmax(-1):
        kept = steps[np.concatenate([[True], steps[1:] != steps[:-1]])]
        texts.append("".join(characters[place] for place in kept if place))
    return texts


def character_errors(texts: Sequence[str], truth: Sequence[str]) -> float:
    """Character error rate: edits over characters, over all lines."""
    edits = sum(_edits(text, wanted) for text, wanted in zip(texts, truth, strict=True))
    return edits / sum(map(len, truth))


def _files() -> Iterator[Path]:
    roots = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "/usr/share", "/usr/include", "/usr/lib"]
    seen = set[str]()
    for root in roots:
        per_kind = dict[str, int]()
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                kind, path = Path(name).suffix[1:].lower(), Path(folder, name)
                if kind not in KINDS or per_kind.get(kind, 0) >= 400 or str(path) in seen or path.is_symlink():
                    continue
                per_kind[kind] = per_kind.get(kind, 0) + 1
                seen.add(str(path))
                yield path


def _in_turn(found: dict[str, list[Path]]) -> Iterator[tuple[str, Path]]:
    queues = {kind: iter(files) for kind, files in sorted(found.items())}
    while queues:
        for kind in list(queues):
            path = next(queues[kind], None)
            if path is None:
                del queues[kind]
            else:
                yield kind, path


def _magika_input(path: Path) -> NDArray[np.int32] | None:
    """The first and the last 1024 bytes, without the white space around them; None for a file too short to judge."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = file.read(BLOCK).lstrip()
            file.seek(max(0, size - BLOCK))
            last = file.read(BLOCK).rstrip()
    except OSError:
        return None
    if size <= BLOCK:
        first = last = first.strip()
    if len(first) < LEAST:
        return None
    row = np.full(2 * ENDS, PADDING, np.int32)
    head, tail = first[:ENDS], last[-ENDS:]
    row[: len(head)] = np.frombuffer(head, np.uint8)
    row[2 * ENDS - len(tail) :] = np.frombuffer(tail, np.uint8)
    return row


def _words() -> list[str]:
    """Words of 3 to 12 letters of the standard library's own text, with some numbers."""
    text = Path(sysconfig.get_path("stdlib"), "argparse.py").read_text(encoding="utf-8")
    words = sorted({word for word in text.replace("_", " ").split() if word.isalpha() and 3 <= len(word) <= 12})
    return [*words, *(str(number) for number in range(1000, 99_999, 2347))]


def _fonts() -> list[str]:
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise RuntimeError("the matplotlib package, whose DejaVu fonts are used, is not installed")
    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    return sorted(str(path) for path in folder.glob("DejaVu*.ttf") if "Display" not in path.name)


def _edits(one: str, other: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        previous, row[0] = row[0], place
        for column, wanted in enumerate(other, 1):
            previous, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, previous + (letter != wanted)),
            )
    return row[-1]

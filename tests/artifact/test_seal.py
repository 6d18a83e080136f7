"""What a model file says of itself: found without parsing the graph, and no flipped bit goes unseen."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from gelu_deploy.artifact.seal import Seal, entries, is_intact, is_sealed

TEXT = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Add(x, x) }'
VALUES = {"form": '"tanh"', "note": '"größer"', "files": "{}"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    model = ir.from_onnx_text(TEXT)
    model.metadata_props["author"] = "somebody"
    ir.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_a_file_of_someone_else_has_no_entries(path: Path) -> None:
    assert entries(path) == {}
    assert not is_sealed(path)


def test_entries_are_metadata_that_any_reader_sees(path: Path) -> None:
    Seal(path).put(VALUES)
    found = entries(path)
    assert {key: found[key] for key in VALUES} == VALUES
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    ours = {f"gelu_deploy.{key}": value for key, value in found.items()}
    assert {entry.key: entry.value for entry in model.metadata_props} == {"author": "somebody", **ours}
    assert is_sealed(path)
    assert is_intact(path)
    assert path.read_bytes().endswith(found["digest"].encode())


def test_a_second_put_replaces_the_first(path: Path) -> None:
    seal = Seal(path)
    seal.put(VALUES | {"long": "x" * 1000})
    seal.put(VALUES)
    assert set(entries(path)) == {*VALUES, "digest"}
    assert is_intact(path)


def test_every_flipped_bit_is_seen(path: Path) -> None:
    Seal(path).put(VALUES)
    whole = path.read_bytes()
    for position in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert is_sealed(path), position
        assert not is_intact(path), position


def test_every_lost_end_is_seen_down_to_the_first_entry(path: Path) -> None:
    bare = path.stat().st_size
    Seal(path).put(VALUES)
    whole = path.read_bytes()
    first = bare + whole[bare:].index(b"form") + len("form")
    for length in range(first, len(whole)):
        path.write_bytes(whole[:length])
        assert is_sealed(path), length
        assert not is_intact(path), length


def test_a_rewritten_file_is_still_known_as_ours(path: Path) -> None:
    Seal(path).put(VALUES)
    model = onnx.load(path)
    model.functions.add(name="f", domain="d", doc_string="x" * 5000)  # comes after the metadata
    onnx.save(model, path)
    assert is_sealed(path)
    assert not is_intact(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x72\xff\xff\xff\xff\x0f", b"\xff" * 40, b"\x72\x02\x0a\x05"])
def test_what_is_no_model_has_no_entries(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert entries(path) == {}
    assert not is_sealed(path)

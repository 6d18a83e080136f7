"""What a file says of how it was made, and what it must not say."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from pathlib import Path
from typing import Any, cast

import pytest

from gelu_deploy import provenance
from gelu_deploy.options import ExportOptions
from gelu_deploy.results import ExportResult


def result(**parts: Any) -> ExportResult:
    site = {"form": "erf", "module": "act", "input": "a", "output": "b", "kernels": ["Gelu"], "reason": "here"}
    base = {"source": "m.pt: a state_dict", "notes": [], "exporter": "dynamo", "sites": [site]}
    return cast("ExportResult", base | parts)


def described(model: object, options: ExportOptions | None = None, **parts: Any) -> Any:
    return provenance.describe(result(**parts), options or ExportOptions(), model)


def test_versions_are_those_installed_and_of_nothing_else() -> None:
    versions = described("none.pt")["provenance"]["versions"]
    assert versions["onnx"] == importlib.metadata.version("onnx")
    assert versions["gelu-deploy"] == importlib.metadata.version("gelu-deploy")
    assert "onnxruntime-gpu" not in versions


def test_options_that_decide_what_the_file_is_are_kept_and_where_it_lies_is_not() -> None:
    options = ExportOptions(form="tanh", exclude=("blocks.0.*",), trust_pickle=True, output="/home/me/secret.onnx")
    asked = described("none.pt", options)["provenance"]["options"]
    assert (asked["form"], asked["exclude"], asked["trust_pickle"]) == ("tanh", ("blocks.0.*",), True)
    assert not {"output", "data", "arch", "overwrite", "dry_run"} & set(asked)
    assert "secret" not in json.dumps(described("none.pt", options))


def test_sites_are_kept_without_what_this_runtime_made_of_them() -> None:
    assert described("none.pt")["sites"] == [{"form": "erf", "module": "act", "input": "a", "output": "b"}]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/me/nets/model.pt: a state_dict", "model.pt: a state_dict"),
        ("from /a/b.npz, seeded", "from b.npz, seeded"),
        ("--exporter ../own/file.py:NAME failed", "--exporter file.py:NAME failed"),
        ("it is (./here/x.npz) and '/there/y.npz'", "it is (x.npz) and 'y.npz'"),
        ("inputs: x 2x4:float32 (found by trying)", "inputs: x 2x4:float32 (found by trying)"),
        ("opset 20 -> 17 by the version converter", "opset 20 -> 17 by the version converter"),
        ("a / b", "a / b"),
    ],
)
def test_paths_are_cut_down_to_their_last_part(text: str, kept: str) -> None:
    made = described("none.pt", source=text, notes=[text], exporter=text)["provenance"]
    assert (made["source"], made["notes"], made["exporter"]) == (kept, [kept], kept)


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(b"def make(): ...")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    for model in (str(file), f"{file}:make"):
        assert described(model)["provenance"]["input_sha256"] == digest


def test_the_digest_of_a_folder_is_of_all_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(b"weights")
    (tmp_path / "a.json").write_bytes(b"{}")
    first = described(str(tmp_path))["provenance"]["input_sha256"]
    parts = "".join(hashlib.sha256(content).hexdigest() for content in (b"{}", b"weights"))
    assert first == hashlib.sha256(parts.encode()).hexdigest()
    (tmp_path / "b.bin").write_bytes(b"weightS")
    assert described(str(tmp_path))["provenance"]["input_sha256"] != first


@pytest.mark.parametrize("model", [object(), "package.module:Net", "none.pt"])
def test_what_is_no_file_has_no_digest(model: object) -> None:
    assert described(model)["provenance"]["input_sha256"] == ""

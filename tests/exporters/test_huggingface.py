"""Hugging Face folders on disk, made here from a config."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gelu_deploy.errors import ModelError, UnsafeError
from gelu_deploy.options import SourceOptions
from gelu_deploy.source import identify
from gelu_deploy.target import load as find

load: Callable[..., Any] = find("gelu_deploy.exporters.loading:load")


def opened(path: Path, **options: Any) -> Any:
    return load(identify(str(path)), SourceOptions(**options))


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.flag}",)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=50, max_position_embeddings=20, **sizes)
    folder = tmp_path_factory.mktemp("bert")
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    return folder


def test_hugging_face_folder(bert: Path, capfd: pytest.CaptureFixture[str]) -> None:
    original = opened(bert)
    outputs = original.run(original.examples)
    assert {name: array.shape for name, array in outputs.items()} == {"logits": (2, 16, 50)}
    assert list(original.inputs) == ["input_ids", "attention_mask", "token_type_ids"]
    assert int(original.examples["input_ids"].max()) < 50
    assert original.module.config.use_cache is False
    assert capfd.readouterr() == ("", "")


def changed(bert: Path, folder: Path, **entries: Any) -> Path:
    """A copy of the folder with other entries in its config."""
    copy = Path(shutil.copytree(bert, folder / "copy"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, **entries}))
    return copy


def test_own_code_of_a_folder_needs_trust(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = changed(bert, tmp_path, architectures=["MyBert"], auto_map={"AutoModel": "code.MyBert"})
    flag = tmp_path / "flag"
    (own / "code.py").write_text(
        f"import pathlib\npathlib.Path({str(flag)!r}).touch()\n"
        "from transformers import BertForMaskedLM\nclass MyBert(BertForMaskedLM): pass\n"
    )
    with pytest.raises(UnsafeError, match=r"code\.MyBert.*--trust-code"):
        opened(own)
    assert not flag.exists()
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.path", list(sys.path))
    original = opened(own, trust_code=True)
    assert type(original.module).__name__ == "MyBert"
    assert flag.exists()
    assert any(note.startswith("trusted code: code.MyBert") for note in original.notes)


def test_folders_that_do_not_load_are_named(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no network called Nonesuch"):
        opened(changed(bert, tmp_path, architectures=["Nonesuch"]))
    other = changed(bert, tmp_path / "b", architectures=["BertForSequenceClassification"])
    with pytest.raises(ModelError, match=r"4 missing: bert\.pooler\.dense\.bias.*--no-strict"):
        opened(other)
    notes = opened(other, strict=False).notes
    assert any(note.startswith("not strict: 4 missing") for note in notes)
    assert any(note.startswith("weights not used, 5 unexpected: cls.predictions.bias") for note in notes)


def test_a_hostile_bin_in_a_folder_runs_nothing(bert: Path, tmp_path: Path) -> None:
    folder, flag = changed(bert, tmp_path), tmp_path / "flag"
    (folder / "model.safetensors").unlink()
    torch.save({"w": torch.ones(1), "x": Touch(flag)}, folder / "pytorch_model.bin")
    with pytest.raises(UnsafeError, match=r"posix\.system"):
        opened(folder)
    assert not flag.exists()

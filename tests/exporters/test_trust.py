"""What may run while a file is loaded: nothing, unless a flag says so; and every flag is recorded."""

from __future__ import annotations

import argparse
import collections
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gelu_deploy.errors import ModelError, UnsafeError, UsageError
from gelu_deploy.options import SourceOptions
from gelu_deploy.source import Kind, identify
from gelu_deploy.target import load as find

load: Callable[..., Any] = find("gelu_deploy.exporters.loading:load")
Weights = dict[str, torch.Tensor]


def opened(path: Path, **options: Any) -> Any:
    return load(identify(str(path)), SourceOptions(**options))


def saved(folder: Path, content: object, **options: Any) -> Path:
    torch.save(content, folder / "model.pt", **options)
    return folder / "model.pt"


def assert_loaded(original: Any) -> None:
    """It computes what the weights of the fixture say."""
    (output,) = original.run({"x": np.ones((2, 4), np.float32)}).values()
    expected = torch.nn.functional.gelu(torch.tensor([7.0, 23.0, 39.0])).numpy()
    np.testing.assert_allclose(output, np.stack([expected, expected]), rtol=1e-6)


def test_plain_data_in_a_checkpoint_is_allowed(tmp_path: Path, arch: str, weights: Weights) -> None:
    content = {
        "model": weights,
        "args": argparse.Namespace(lr=0.1, out=Path("runs") / "a"),
        "best": np.float64(0.5),
        "history": np.arange(3),
        "dtype": np.dtype("float32"),
        "groups": collections.defaultdict(list, {"a": [1]}),
        "version": torch.torch_version.TorchVersion("2.13.0"),
    }
    assert_loaded(opened(saved(tmp_path, content), arch=arch))


def test_names_of_numpy_1_are_allowed(tmp_path: Path, arch: str, weights: Weights) -> None:
    path = saved(tmp_path, {"model": weights, "best": np.float64(0.5)}, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"))
    assert "numpy.core.multiarray.scalar" in identify(str(path)).globals
    assert_loaded(opened(path, arch=arch))


class Keeper:
    """Holds data only."""

    def __init__(self) -> None:
        self.value = 3


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.flag}",)


class Small(torch.nn.Module):
    """One layer and a GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.fc(x))


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> str:
    """This file under a name that pickles can carry."""
    monkeypatch.setitem(sys.modules, "loading_test_classes", sys.modules[__name__])
    for kind in (Keeper, Small):
        monkeypatch.setattr(kind, "__module__", "loading_test_classes")
    return "loading_test_classes"


def test_another_class_is_refused_by_name_until_allowed(
    tmp_path: Path, arch: str, weights: Weights, importable: str
) -> None:
    path = saved(tmp_path, {"model": weights, "keeper": Keeper()})
    name = f"{importable}.Keeper"
    with pytest.raises(UnsafeError, match=f"wants to run {name}.*--allow-class {name}"):
        opened(path, arch=arch)
    with pytest.raises(UnsafeError, match=name):
        opened(path, arch=arch, allow_class=("collections.Other",))
    original = opened(path, arch=arch, allow_class=(name,))
    assert_loaded(original)
    assert f"allowed class: {name}" in original.notes


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, arch: str, weights: Weights, alone: bool, zipped: bool) -> None:
    flag = tmp_path / "flag"
    content = Touch(flag) if alone else {"model": weights, "x": Touch(flag)}
    path = saved(tmp_path, content, _use_new_zipfile_serialization=zipped)
    for options in ({}, {"allow_class": ("collections.Counter",)}, {"trust_code": True}, {"strict": False}):
        with pytest.raises(UnsafeError, match=r"posix\.system.*do not load this file") as caught:
            opened(path, arch=arch, **options)
        assert "--trust" not in str(caught.value)
    assert not flag.exists()


def test_a_function_is_never_an_allowed_class(tmp_path: Path, arch: str, weights: Weights) -> None:
    flag = tmp_path / "flag"
    with pytest.raises(UsageError, match="not a class"):
        opened(saved(tmp_path, {"model": weights, "x": Touch(flag)}), arch=arch, allow_class=("posix.system",))
    assert not flag.exists()


@pytest.mark.parametrize("wrap", [lambda module: module, lambda module: {"epoch": 2, "model": module, "ema": None}])
def test_a_pickled_module(tmp_path: Path, importable: str, wrap: Callable[[Any], Any]) -> None:
    path = saved(tmp_path, wrap(Small().half()))
    assert identify(str(path)).kind == Kind.MODULE_PICKLE
    with pytest.raises(UnsafeError, match=rf"{importable}\.Small.*state_dict.*--arch.*--trust-pickle"):
        opened(path, input=("x:2x4",))
    original = opened(path, input=("x:2x4",), trust_pickle=True)
    assert original.run(original.examples)["output_0"].dtype == np.float16
    assert "trusted pickle: the file ran its own code while it was loaded" in original.notes
    assert "x cast from float32 to float16, the network's type" in original.notes


def test_a_pickled_module_whose_class_is_gone(tmp_path: Path, importable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, Small())
    monkeypatch.delitem(sys.modules, importable)
    with pytest.raises(ModelError, match="its code is not here"):
        opened(path, input=("x:2x4",), trust_pickle=True)


@pytest.mark.filterwarnings("ignore:`torch.jit")  # making the file is the test's business
def test_torchscript(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Small()), str(tmp_path / "model.pt"))
    with pytest.raises(UnsafeError, match=r"TorchScript is a program.*--trust-code"):
        opened(tmp_path / "model.pt", input=("x:2x4",))
    original = opened(tmp_path / "model.pt", input=("x:2x4",), trust_code=True)
    assert original.exporters == ("torchscript",)
    assert original.run(original.examples)["output_0"].shape == (2, 3)
    assert original.traceable("torchscript", ["output_0"]) is original.module


class Pair(torch.nn.Module):
    """Two inputs, one by keyword only, and a nested result."""

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> dict[str, Any]:
        return {"a": x * mask, "rest": (mask + 1, None, 3)}


def test_exported_program(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch")
    shapes = {"x": {0: batch}, "mask": {0: batch}}
    program = torch.export.export(Pair(), (torch.ones(2, 3),), {"mask": torch.ones(2, 3)}, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    with pytest.raises(UnsafeError, match="--trust-code"):
        opened(tmp_path / "model.pt2")
    original = opened(tmp_path / "model.pt2", trust_code=True)
    assert (original.exporters, {name: list(axes) for name, axes in original.axes.items()}) == (
        ("dynamo",),
        {"x": [0], "mask": [0]},
    )
    feeds = {"mask": np.full((3, 3), 2, np.float32), "x": np.ones((3, 3), np.float32)}
    outputs = original.run(feeds)
    assert {name: float(array[0, 0]) for name, array in outputs.items()} == {"a": 2.0, "rest_0": 3.0}
    assert [float(tensor[0, 0]) for tensor in original.flat()(*original.tensors())] == [1.0, 2.0]
    with pytest.raises(UsageError, match="--dtype"):
        opened(tmp_path / "model.pt2", trust_code=True, dtype="float16")

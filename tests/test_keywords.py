"""Keywords of the Python verbs: the same names, checks and answers as the flags."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gelu_deploy
from gelu_deploy.errors import UsageError
from gelu_deploy.keywords import build
from gelu_deploy.options import (
    BenchOptions,
    DoctorOptions,
    ExportOptions,
    InspectOptions,
    RunOptions,
    SourceOptions,
    SurveyOptions,
)


def test_values_take_the_shape_of_their_field() -> None:
    made = build(
        ExportOptions,
        {
            "output": Path("a/b.onnx"),
            "exclude": "blocks.0.*",
            "arch_arg": ["depth=4"],
            "opset": 20,
            "max_form_error": 1,
        },
    )
    assert made == ExportOptions(
        output="a/b.onnx", exclude=("blocks.0.*",), arch_arg=("depth=4",), opset=20, max_form_error=1.0
    )


@pytest.mark.parametrize(
    ("kind", "keywords", "said"),
    [
        (ExportOptions, {"exclud": "x"}, "There is no option 'exclud'. Did you mean 'exclude'?"),
        (InspectOptions, {"zzz": 1}, "There is no option 'zzz'. The options are: provider."),
        (RunOptions, {}, "Options that must be given are missing: data."),
        (
            ExportOptions,
            {"dtype": "int8"},
            "Option 'dtype' got 'int8'; expected 'float32' or 'float16' or 'bfloat16' or 'float64' or None.",
        ),
        (ExportOptions, {"opset": "20"}, "Option 'opset' got '20'; expected int or None."),
        (ExportOptions, {"opset": True}, "Option 'opset' got True; expected int or None."),
        (SourceOptions, {"input": [1]}, "Option 'input' got 1 in its list; expected strings."),
        (SourceOptions, {"input": 1}, "Option 'input' got 1; expected a list of strings."),
        (SourceOptions, {"strict": 1}, "Option 'strict' got 1; expected bool."),
    ],
)
def test_what_cannot_be_meant_is_told(kind: type, keywords: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(kind, keywords)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("name", "arguments", "keywords", "expected"),
    [
        ("export", (Path("m.pt"),), {"form": "erf"}, ("m.pt", ExportOptions(form="erf"))),
        ("inspect", (Path("m.onnx"),), {}, ("m.onnx", InspectOptions())),
        ("run", ("m.onnx",), {"data": Path("x.npz")}, ("m.onnx", RunOptions(data="x.npz"))),
        ("survey", (Path("m.pt"),), {"data": "x.npz"}, ("m.pt", SurveyOptions(data="x.npz"))),
        ("bench", (Path("a.onnx"), "b.onnx"), {"batch": 2}, (["a.onnx", "b.onnx"], BenchOptions(batch=2))),
        ("doctor", (), {}, (DoctorOptions(),)),
    ],
)
def test_a_verb_gets_model_and_options_and_its_result_comes_back(
    name: str, arguments: Any, keywords: Any, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType(f"gelu_deploy.verbs.{name}")
    setattr(module, name, lambda *got: {"got": got})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert getattr(gelu_deploy, name)(*arguments, **keywords) == {"got": expected}


def test_a_network_in_memory_is_handed_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("gelu_deploy.verbs.export")
    module.export = lambda model, _options: model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    network = object()
    assert gelu_deploy.export(network) is network


def test_public_names() -> None:
    verbs = ["bench", "check", "compare", "doctor", "export", "forms", "inspect", "quantize", "run", "survey"]
    assert dir(gelu_deploy) == sorted(["Session", "__version__", *verbs])
    with pytest.raises(AttributeError, match="no attribute 'exprot'; it has"):
        _ = gelu_deploy.exprot
    rooms = {name for _, name, _ in pkgutil.iter_modules(gelu_deploy.__path__)}
    assert not rooms & set(verbs), "a module of a verb's name takes the function's place once it is imported"


def test_importing_the_package_imports_nothing_and_stops_the_uploader() -> None:
    program = "import os, sys, gelu_deploy; print(os.environ['ORT_DISABLE_TELEMETRY'], *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={})
    telemetry, *modules = done.stdout.split()
    assert telemetry == "1"
    assert {"torch", "onnx", "onnxruntime", "numpy", "rich", "cyclopts"} & set(modules) == set()

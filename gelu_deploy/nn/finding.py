"""Is this function, or this module, a GELU? Asked by value, as recognition in graphs does it.

It calls what it is given on numbers of its own and looks at what comes back; names and classes decide nothing.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType

import numpy as np
import torch
from torch import Tensor, nn

from gelu_deploy.gelu.exact import Float64
from gelu_deploy.graph.judge import judge
from gelu_deploy.nn.layers import GELU

BENT = {"erf", "erfc", "erfcx", "exp", "ndtr", "sigmoid", "sign", "tanh"}
"""What the code of a GELU names, unless it names another gelu: a function without one of them is not called."""


def form_of(function: Callable[[Tensor], object]) -> str:
    """The name in ``gelu.FORMS`` of what a function computes element by element, or ``""``.

    It is called on the CPU, in float64 and without gradients; whatever it raises makes it no GELU.
    """

    def values(at: Float64) -> Float64:
        result = function(torch.from_numpy(at.copy()))
        if not isinstance(result, Tensor) or result.shape != at.shape:
            raise TypeError("the result is no tensor of the shape of the input")
        return np.asarray(result.double().numpy())

    try:
        with _aside():
            verdict = judge(values, "float64")
            if verdict is None or not verdict.accepted or verdict.scale != 1:
                return ""
            line = np.linspace(-3, 3, 60)
            elementwise = np.allclose(values(line.reshape(2, 3, 2, 5)).ravel(), values(line), atol=1e-6)
    except Exception:  # noqa: BLE001 - anybody's code may raise anything
        return ""
    return verdict.form if elementwise else ""


def form_of_module(module: nn.Module) -> str:
    """The form that a module without children and parameters computes, in training and in eval mode, or ``""``."""
    if isinstance(module, GELU):
        return module.form
    if next(module.children(), None) is not None or next(module.parameters(), None) is not None:
        return ""
    was, forms = module.training, set[str]()
    try:
        for mode in (True, False):
            module.training = mode
            forms.add(form_of(module.forward))  # not through hooks, which are not ours to run
    finally:
        module.training = was
    return forms.pop() if len(forms) == 1 else ""


def form_of_callable(value: object) -> str:
    """The form of a function, a module or a partial function that code or a module holds, or ``""``.

    A function whose code names nothing of which GELUs are made is not called.
    """
    if isinstance(value, nn.Module):
        return form_of_module(value)
    inner = value
    while isinstance(inner, (functools.partial, MethodType)):
        inner = inner.func if isinstance(inner, functools.partial) else inner.__func__
    if isinstance(inner, FunctionType):
        likely = any(name in BENT or "gelu" in name.lower() for name in names(inner.__code__))
    else:
        likely = inner is nn.functional.gelu or isinstance(inner, torch.jit.ScriptFunction)
    return form_of(value) if likely and callable(value) else ""


def functions_in(module: nn.Module) -> dict[str, str]:
    """The attributes in which a module holds a function that is a GELU, with its form."""
    held = ((name, form_of_callable(value)) for name, value in vars(module).items() if name != "forward")
    return {name: form for name, form in held if form}


def names(code: CodeType) -> Iterator[str]:
    """The globals and attributes that code names, that of its inner functions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names(constant)


@contextmanager
def _aside() -> Generator[None]:
    """Leaves no trace: no gradients, no warnings, random numbers as they were; constants are made on the CPU."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]), torch.device("cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

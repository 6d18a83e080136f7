"""The forms of GELU as PyTorch layers, and the autograd function behind those that PyTorch has not.

It knows one layer at a time; networks are :mod:`gelu_deploy.nn.replacing`'s business.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from gelu_deploy.errors import UsageError
from gelu_deploy.nn.formulas import FORMULAS, evaluate

KERNELS: Final = {"erf": "none", "tanh": "tanh"}
"""The forms that torch computes in one kernel, by its name for them."""
HALVES: Final = (torch.float16, torch.bfloat16)


class Analytic(torch.autograd.Function):
    """A form of GELU with its derivatives by formula: ``Analytic.apply(x, form, order)``.

    It keeps nothing but x for its backward, which is the same function one ``order`` higher; so it can be
    differentiated twice, forwards and backwards, and under ``torch.func``. The exact form's gradient is within 4 units
    in the last place in float64, the left tail included, where PyTorch's own is off by 1.4 % at x = -8.4.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, form: str, order: int) -> Tensor:
        """The ``order``-th derivative at x, of any shape."""
        if order > 2:
            raise NotImplementedError(f"the {form} form of GELU has no third derivative here; two are provided.")
        return evaluate(x, form, order)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str, int], output: Tensor) -> None:  # noqa: ARG004 - torch's names
        """Keep x."""
        x, ctx.form, ctx.order = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        """The gradient times the next derivative."""
        return grad_outputs[0] * _next(ctx), None, None

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Tensor) -> Tensor:
        """The tangent times the next derivative."""
        return grad_inputs[0] * _next(ctx)


_apply: Any = Analytic.apply  # torch does not say its type


def _next(ctx: Any) -> Tensor:
    (x,) = ctx.saved_tensors
    derivative: Tensor = _apply(x, ctx.form, ctx.order + 1)
    return derivative


def gelu(x: Tensor, form: str = "erf") -> Tensor:
    """One form of GELU of a float tensor of any shape, the fastest way.

    ``erf`` and ``tanh`` are torch's kernels, which have a backward of their own. The others are written out, with
    :class:`Analytic` as their backward, so that training keeps one tensor of each and not one of every step; a compiler
    chooses for itself what to keep.
    """
    if form in KERNELS:
        return nn.functional.gelu(x, approximate=KERNELS[form])
    if torch.is_grad_enabled() and x.requires_grad and not torch.compiler.is_compiling():
        value: Tensor = _apply(x, form, 0)
        return value
    return evaluate(x, form, 0)


class GELU(nn.Module):
    """A form of GELU as a layer without parameters: a float tensor of any shape to the same shape and type.

    Args:
        form: A name in ``gelu_deploy.gelu.FORMS`` or ``REFERENCES``.
        fp16_safe: Whether 16-bit inputs are computed in float32. torch's kernels for ``erf`` and ``tanh`` do that in
            any case; in an exported graph it is two casts around the form, so that runtimes must do it too.

    Raises:
        UsageError: There is no such form.
    """

    def __init__(self, form: str = "erf", *, fp16_safe: bool = False) -> None:
        if form not in FORMULAS:
            raise UsageError(f"form={form!r} is no form of GELU; use one of {', '.join(FORMULAS)}.")
        super().__init__()
        self.form = form
        self.fp16_safe = fp16_safe

    def forward(self, x: Tensor) -> Tensor:
        """The form of x, element by element."""
        if self.fp16_safe and x.dtype in HALVES:
            return gelu(x.float(), self.form).to(x.dtype)
        return gelu(x, self.form)

    def extra_repr(self) -> str:
        """What ``print`` shows between the brackets."""
        return f"form={self.form!r}" + (", fp16_safe=True" if self.fp16_safe else "")

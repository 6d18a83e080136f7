"""Every GELU in a network becomes one form, in place, with a word on each.

It knows how networks hold their activations: as a child module, as a function in an attribute, or as a call in forward.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from gelu_deploy.errors import UsageError
from gelu_deploy.nn.calls import Call, Calls, calls_of, free, rewire
from gelu_deploy.nn.finding import form_of_module, functions_in
from gelu_deploy.nn.layers import GELU


@dataclass(frozen=True)
class Change:
    """One GELU of a network, and what became of it.

    Attributes:
        path: Its dotted name in the network; for a call in forward, that of the layer which replaces it.
        was: What it was, in words.
        form: The form that it computed; ``""`` where that cannot be told.
        now: What it is now, as ``print`` shows it; ``""`` if it was left as it was.
        reason: Why it was left.
    """

    path: str
    was: str
    form: str
    now: str = ""
    reason: str = ""


@dataclass(frozen=True)
class _Found:
    """A GELU before anything is done, and where it is held."""

    change: Change
    holder: nn.Module
    name: str
    value: Any
    calls: Calls | None = None


@dataclass
class _Search:
    """What is known of each module already: networks hold one module under several names."""

    forms: dict[nn.Module, str] = field(default_factory=dict[nn.Module, str])
    calls: dict[nn.Module, Calls | None] = field(default_factory=dict[nn.Module, Calls | None])

    def run(self, network: nn.Module) -> Iterator[_Found]:
        """Every GELU of the network under each of its paths, holders before what they hold."""
        for path, module in network.named_modules(remove_duplicate=False):
            if module not in self.forms:
                self.forms[module] = form_of_module(module)
            if self.forms[module]:
                above, _, name = path.rpartition(".")
                change = Change(path, re.sub(r"\s+", " ", repr(module)), self.forms[module])
                yield _Found(change, network.get_submodule(above), name, module)
            elif not isinstance(module, torch.jit.ScriptModule):
                start = f"{path}." if path else ""
                yield from self._functions(start, module)
                yield from self._calls(start, module)

    @staticmethod
    def _functions(start: str, module: nn.Module) -> Iterator[_Found]:
        for name, form in functions_in(module).items():
            value = vars(module)[name]
            yield _Found(Change(start + name, f"a function, {_called(value)}", form), module, name, value)

    def _calls(self, start: str, module: nn.Module) -> Iterator[_Found]:
        if module not in self.calls:
            self.calls[module] = calls_of(module)
        calls, forward = self.calls[module], f"{type(module).__name__}.forward"
        if calls is None:
            return
        if calls.reason:
            yield _Found(Change(start + "forward", f"gelu in {forward}", "", reason=calls.reason), module, "", None)
        for call in calls.found:
            name = free(module, call.name)
            change = Change(start + name, f"{_called(call.target)} in {forward}", call.form)
            yield _Found(change, module, name, call, calls)


def replace_gelu(
    module: nn.Module, form: str, *, fp16_safe: bool = False, exclude: str | Iterable[str] = ()
) -> list[Change]:
    """Let every GELU of a network compute one form, in place, and say what became of each.

    Found, whatever its class or name, by what it computes: modules without parameters (``nn.GELU``, those of
    transformers, one's own), functions held in attributes (``self.activation = F.gelu``), and calls in the forward of
    a module (``F.gelu(x)``, or a function of its file) where ``torch.fx`` can trace it; where it cannot, the change
    says why. An activation written out in the forward of a module that does more is not seen.

    Weights, their names, modes and hooks stay. What computes the form already stays, unless ``fp16_safe`` asks for
    more. In a forward that is traced, plain attributes (numbers, flags) keep the value that they have now; and such a
    module can be copied, compiled and exported, but not pickled whole: save its ``state_dict``.

    Args:
        module: Any network; not TorchScript, and not a GELU itself, which nothing holds.
        form: A name in ``gelu_deploy.gelu.FORMS`` or ``REFERENCES``.
        fp16_safe: As for :class:`GELU`.
        exclude: Patterns of paths to leave as they are, as in ``blocks.0.*``.

    Returns:
        One :class:`Change` for each GELU under each of its paths, in the order of ``named_modules``; those without
        ``now`` were left.

    Raises:
        UsageError: There is no such form, the module has nothing that can be changed, or a pattern matches no GELU.
    """
    network: Any = module
    if not isinstance(network, nn.Module) or isinstance(network, torch.jit.ScriptModule):
        raise UsageError(f"expected a torch.nn.Module that can be changed, got a {type(module).__name__}.")
    wanted = GELU(form, fp16_safe=fp16_safe)
    found = list(_Search().run(module))
    if found and found[0].value is module:
        raise UsageError(f"the network is a GELU itself, {found[0].change.was}, which nothing holds: use {wanted!r}.")
    patterns = [exclude] if isinstance(exclude, str) else list(exclude)
    _refuse_idle(patterns, [one.change.path for one in found])
    decided = [_decided(one, wanted, patterns) for one in found]
    _swap([one for one in decided if one.change.now], wanted)
    _leave_fused_paths(module)
    return [one.change for one in decided]


def _decided(one: _Found, wanted: GELU, patterns: Sequence[str]) -> _Found:
    """What is to become of it: ``now``, or a reason to leave it."""
    reason = one.change.reason
    if any(fnmatchcase(one.change.path, pattern) for pattern in patterns):
        reason = "excluded"
    elif isinstance(one.value, nn.Module) and next(one.value.buffers(), None) is not None:
        reason = "it has buffers, which files of weights may name"
    elif not reason and one.change.form == wanted.form and not _lacks(one, wanted):
        reason = f"it computes {wanted.form} already"
    change = replace(one.change, reason=reason) if reason else replace(one.change, now=repr(wanted))
    return replace(one, change=change)


def _lacks(one: _Found, wanted: GELU) -> bool:
    """Whether something of the same form is still not what is wanted."""
    if wanted.fp16_safe and not (isinstance(one.value, GELU) and one.value.fp16_safe):
        return True
    fused = isinstance(one.holder, nn.TransformerEncoderLayer) and one.holder.activation_relu_or_gelu
    return bool(fused) and wanted.form != "erf"  # the fused path computes erf, whatever nn.GELU stands there


def _swap(found: Sequence[_Found], wanted: GELU) -> None:
    """Put a layer in each place: one layer for one module, however many places hold it."""
    layers, forwards = dict[Any, GELU](), dict[Calls, dict[Call, tuple[str, nn.Module]]]()
    for one in found:
        value: Any = one.value
        module = isinstance(value, nn.Module)
        key = value if module or one.calls is not None else (one.holder, one.name)
        layer = layers.setdefault(key, GELU(wanted.form, fp16_safe=wanted.fp16_safe))
        _take_over(layer, value if module else one.holder, hooks=module)
        if one.calls is not None:
            forwards.setdefault(one.calls, {})[value] = (one.name, layer)
            continue
        setattr(one.holder, one.name, layer)
        if isinstance(one.holder, nn.TransformerEncoderLayer):
            one.holder.activation_relu_or_gelu = 0
    for calls, into in forwards.items():
        rewire(calls, into)


def _take_over(layer: GELU, old: nn.Module, *, hooks: bool) -> None:
    """The mode of what it replaces, and its hooks; what removes a hook there then removes it here."""
    layer.train(old.training)
    if hooks:
        vars(layer).update({name: value for name, value in vars(old).items() if "hook" in name})


def _leave_fused_paths(network: nn.Module) -> None:
    """A stack whose layers have no fused path any more must not prepare for it."""
    for part in network.modules():
        fused = isinstance(part, nn.TransformerEncoder) and all(
            getattr(layer, "activation_relu_or_gelu", 0) for layer in part.layers
        )
        if isinstance(part, nn.TransformerEncoder) and not fused:
            part.use_nested_tensor = False


def _refuse_idle(patterns: Sequence[str], paths: Sequence[str]) -> None:
    """Raise UsageError for a pattern that matches no GELU."""
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in paths):
            there = ", ".join(dict.fromkeys(re.sub(r"\d+", "*", path) for path in paths)) or "none"
            raise UsageError(f"exclude={pattern!r} matches no GELU; they are {there}.")


def _called(value: Any) -> str:
    """A function by its name."""
    inner = getattr(value, "func", value)
    return str(getattr(inner, "__name__", None) or type(inner).__name__)

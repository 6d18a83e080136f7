"""Calls of a GELU in a module's forward, found and replaced through torch.fx.

The module stays the object that it is, with its weights, hooks and children; its class becomes a subclass whose forward
is the traced one. A trace is only used where it can be trusted: it must not depend on values or on which optional
arguments are given, and must see everything that forward does.
"""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from gelu_deploy.nn.finding import form_of, form_of_callable, functions_in, names

UNSEEN = {
    **dict.fromkeys(("isinstance", "hasattr", "is_tensor"), "asks what its input is"),
    **dict.fromkeys(("autocast", "no_grad", "enable_grad", "set_grad_enabled", "inference_mode"), "switches a context"),
    **dict.fromkeys(("is_grad_enabled", "is_autocast_enabled", "is_compiling", "is_tracing"), "asks for the context"),
    **dict.fromkeys(("rand", "randn", "randint", "random", "uniform"), "decides at random"),
    "checkpoint": "checkpoints its activations",
}
"""Names in code whose effect no trace records."""


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a GELU: its form, and the node that it is in each trace."""

    form: str
    nodes: tuple[fx.Node, ...]

    @property
    def name(self) -> str:
        """The name of its step."""
        return self.nodes[0].name

    @property
    def target(self) -> Any:
        """What is called."""
        return self.nodes[0].target


@dataclass(frozen=True, eq=False)
class Calls:
    """What the forward of one module calls.

    Attributes:
        owner: The module.
        traces: Its forward in eval mode, and in training mode if it does something else there; empty if there is no
            trace to be trusted.
        found: The calls of a GELU.
        reason: Why there is no trace.
    """

    owner: nn.Module
    traces: tuple[fx.Graph, ...] = ()
    found: tuple[Call, ...] = ()
    reason: str = ""


def calls_of(owner: nn.Module) -> Calls | None:
    """The calls of a GELU in ``owner``'s own forward; None where nothing hints at one. Nothing is changed."""
    functions = list(_functions(type(owner)))
    named = {name for function in functions for name in names(function.__code__)}
    methods = [name for name in named if isinstance(getattr(type(owner), name, None), types.FunctionType)]
    reached = [one for function in functions for one in _globals(function)]
    reached += [_Name(vars(owner), name, getattr(owner, name)) for name in methods]
    gelus = [one for one in reached if form_of_callable(one.value)]
    if "gelu" not in named and not gelus:
        return None
    try:
        traces = _trusted(owner, named, gelus)
        found = _paired(traces)
    except _Untraceable as error:
        child = isinstance(getattr(owner, "gelu", None), nn.Module) and not gelus
        return None if child else Calls(owner, reason=str(error))
    return Calls(owner, traces, found) if found else None


def rewire(calls: Calls, layers: Mapping[Call, tuple[str, nn.Module]]) -> None:
    """Let the owner call these modules, as children of these names, in place of these calls."""
    owner = calls.owner
    foreign = {one: (free(owner, one.name), one.target) for one in calls.found if isinstance(one.target, nn.Module)}
    for call, (name, layer) in {**foreign, **layers}.items():
        owner.add_module(name, layer)
        for node in call.nodes:
            with node.graph.inserting_before(node):
                node.replace_all_uses_with(node.graph.call_module(name, tuple(node.all_input_nodes)))
            node.graph.erase_node(node)
    kind = type(owner)
    forwards = [type(fx.GraphModule(owner, graph)).forward for graph in calls.traces]
    evaluate, train = forwards[0], forwards[-1]

    @functools.wraps(kind.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return (train if self.training else evaluate)(self, *args, **kwargs)

    same = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    owner.__class__ = types.new_class(kind.__name__, (kind,), exec_body=lambda body: body.update(same, forward=forward))


def free(owner: nn.Module, name: str) -> str:
    """A name for a new child."""
    while hasattr(owner, name):
        name += "_"
    return name


class _Untraceable(Exception):
    """Why a forward has no trace to be trusted."""


class _Name(NamedTuple):
    """A name in code: where it is looked up first, and what it stands for."""

    space: dict[str, Any]
    name: str
    value: Any


class _OwnForward(fx.Tracer):
    """Traces one forward; its children, and what is a GELU as a whole, are single steps."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002 - torch.fx's names
        return True

    def function(self, of: _Name, *args: Any, **kwargs: Any) -> fx.Proxy:
        """Stands for a function of the file or a method, or a module that only the file holds."""
        return self.create_proxy("call_function", of.value, args, kwargs, name=getattr(of.value, "__name__", of.name))

    def attribute(self, name: str, *args: Any, **kwargs: Any) -> fx.Proxy:
        """Stands for a function in an attribute: a step like a child, since that is what it may become."""
        return self.create_proxy("call_module", name, args, kwargs)


def _functions(kind: type[nn.Module]) -> Iterator[types.FunctionType]:
    """Forward, and what it reaches: methods of its class, functions of their files, what decorators hold."""
    queue, seen = list[Any]([kind.forward]), set[Any]()
    while queue:
        function = queue.pop()
        if not isinstance(function, types.FunctionType) or function in seen:
            continue
        seen.add(function)
        yield function
        own = [getattr(kind, name, None) for name in names(function.__code__) if not hasattr(nn.Module, name)]
        near = [
            one.value for one in _globals(function) if getattr(one.value, "__module__", None) == function.__module__
        ]
        held = [cell.cell_contents for cell in function.__closure__ or ()]
        queue += [inspect.unwrap(function), *own, *held, *(one for one in near if not form_of_callable(one))]


def _globals(function: types.FunctionType) -> Iterator[_Name]:
    space = function.__globals__
    return (_Name(space, name, space[name]) for name in names(function.__code__) if name in space)


def _trusted(owner: nn.Module, named: set[str], gelus: list[_Name]) -> tuple[fx.Graph, ...]:
    """The traces of ``owner``'s forward. Raises _Untraceable if there is none, or one that says too little."""
    if "forward" in vars(owner):
        raise _Untraceable("its forward was replaced on the instance")
    unseen = next((name for name in UNSEEN if name in named), None)
    if unseen:
        raise _Untraceable(f"its forward {UNSEEN[unseen]} ({unseen}), which a trace does not record")
    parameters = inspect.signature(type(owner).forward).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}
    was, graphs = owner.training, list[fx.Graph]()
    try:
        for mode in (False, True):
            owner.training = mode
            graphs.append(_trace(owner, gelus, {}))
            if _steps(graphs[-1]) != _steps(_trace(owner, gelus, defaults)):
                raise _Untraceable(f"its forward depends on whether {', '.join(defaults)} is given")
    finally:
        owner.training = was
    texts = [[f"{node.op} {node.target} {node.args} {node.kwargs}" for node in graph.nodes] for graph in graphs]
    return tuple(graphs[:1] if texts[0] == texts[1] else graphs)


def _paired(traces: tuple[fx.Graph, ...]) -> tuple[Call, ...]:
    """The calls of a GELU, which must be the same in each trace."""
    found = [[(node, form) for node in graph.nodes if (form := _form(node))] for graph in traces]
    if any([form for _, form in one] != [form for _, form in found[0]] for one in found):
        raise _Untraceable("its forward has other GELUs in training")
    return tuple(Call(pairs[0][1], tuple(node for node, _ in pairs)) for pairs in zip(*found, strict=True))


def _trace(owner: nn.Module, gelus: list[_Name], fixed: Mapping[str, Any]) -> fx.Graph:
    """One trace, with some arguments fixed; ``owner`` is as before."""
    tracer, own = _OwnForward(), vars(owner)
    before = dict(own)
    own.update({name: functools.partial(tracer.attribute, name) for name in functions_in(owner)})
    for one in gelus:
        one.space[one.name] = functools.partial(tracer.function, one)
    ready = dict(own)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of arguments that it cannot watch
            graph = tracer.trace(owner, concrete_args=dict(fixed) or None)
    except Exception as error:  # anybody's code may raise anything
        told = next(iter(str(error).splitlines()), "no message")
        raise _Untraceable(f"its forward cannot be traced: {type(error).__name__}: {told}") from error
    finally:
        kept = any(name not in ready or ready[name] is not value for name, value in own.items())
        for one in gelus:
            one.space[one.name] = one.value
        own.clear()
        own.update(before)
    if kept:
        raise _Untraceable("its forward keeps something on the module, which a trace would lose")
    return graph


def _steps(graph: fx.Graph) -> list[str]:
    """What a trace does, in order, without the watch that fx keeps over fixed arguments."""
    for node in reversed(list(graph.nodes)):
        name = getattr(node.target, "__name__", "")
        if name in {"_assert", "_assert_is_none"} or (name == "eq" and not node.users):
            graph.erase_node(node)
    return [f"{node.op} {node.target}" for node in graph.nodes if node.op != "placeholder"]


def _form(node: fx.Node) -> str:
    """The form of a call of a function of one tensor, or ``""``."""
    if node.op != "call_function" or len(node.all_input_nodes) != 1 or not form_of_callable(node.target):
        return ""

    def call(x: torch.Tensor) -> Any:
        def value(_: fx.Node) -> torch.Tensor:
            return x

        return node.target(*fx.map_arg(node.args, value), **fx.map_arg(node.kwargs, value))  # type: ignore[operator] # a function, as asked above

    return form_of(call)

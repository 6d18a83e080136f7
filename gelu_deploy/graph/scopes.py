"""PyTorch module names on nodes: read from what the exporters leave, kept through every pass by value name.

It knows nothing of GELU.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

import onnx_ir as ir

MODULE = "gelu_deploy.module"
"""Node metadata: dotted name of the innermost PyTorch module that the node comes from."""

NAME_SCOPES = "pkg.torch.onnx.name_scopes"
NOWHERE = "_empty_nn_module_stack_from_metadata_hook"
"""What torch writes where it has lost the scope."""
ROOT = "network"
"""Name under which the exporters wrap the user's module; never shown."""
TOP = "(root)"
"""The user's module itself, whose own name is empty."""

NAMED = 3
"""Nodes that a message names before it counts."""


def module_of(node: ir.Node | None) -> str:
    """The module a node comes from: its dotted name, ``(root)`` for the network itself, ``""`` if unknown."""
    return "" if node is None else node.metadata_props.get(MODULE, "")


def same_module(node: ir.Node, other: ir.Node) -> None:
    """Have ``node``, which is new, come from the module that ``other`` comes from."""
    if MODULE in other.metadata_props:
        node.metadata_props[MODULE] = other.metadata_props[MODULE]


def place_of(node: ir.Node) -> str:
    """A node for a person to find: its module and its own name, ``blocks.0.act (node_gelu)``, or what there is."""
    name = node.name or next((value.name for value in node.outputs if value.name), "") or "a node without a name"
    return f"{module_of(node)} ({name})" if module_of(node) else name


def places_of(nodes: Sequence[ir.Node]) -> str:
    """The places of the first three nodes, and how many more there are."""
    more = f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    return ", ".join(place_of(node) for node in nodes[:NAMED]) + more


def normalise(model: ir.Model) -> None:
    """Put ``MODULE`` on every node whose exporter left a scope, in place, and drop the rest of the node metadata.

    What is dropped holds stack traces and file names of the machine that exported.
    """
    for node in model.graph.all_nodes():
        module = module_of(node) or _from_metadata(node) or _from_name(node)
        node.metadata_props.clear()
        node.doc_string = None
        if module:
            node.metadata_props[MODULE] = module
    for value in model.graph.initializers.values():
        value.metadata_props.clear()
    _adopt(model)


def remember(model: ir.Model) -> dict[str, str]:
    """Module by name of the value that a node makes; what :func:`restore` needs."""
    return {
        value.name: module
        for node in model.graph.all_nodes()
        if (module := module_of(node))
        for value in node.outputs
        if value.name
    }


def restore(model: ir.Model, modules: Mapping[str, str]) -> None:
    """Give nodes back their modules after a tool dropped them, in place: by value name, then from their neighbours."""
    for node in model.graph.all_nodes():
        known = [modules[value.name] for value in node.outputs if value.name and value.name in modules]
        if known and not module_of(node):
            node.metadata_props[MODULE] = known[0]
    _adopt(model)


def _adopt(model: ir.Model) -> None:
    """Nodes without a module take the one of the only module that uses them, else of what they read."""
    for node in reversed(list(model.graph)):
        if not module_of(node):
            users = {module_of(user) for value in node.outputs for user, _ in value.uses()} - {""}
            if len(users) == 1:
                node.metadata_props[MODULE] = users.pop()
    for node in model.graph:
        if not module_of(node):
            makers = [module_of(value.producer()) for value in node.inputs if value is not None]
            if any(makers):
                node.metadata_props[MODULE] = next(filter(None, makers))


def _from_metadata(node: ir.Node) -> str:
    """The dynamo exporter's list: ``['', 'network', 'network.blocks.0', 'network.blocks.0.act', 'gelu']``."""
    try:
        scopes = ast.literal_eval(node.metadata_props.get(NAME_SCOPES, "[]"))
    except (ValueError, SyntaxError):
        return ""
    if not isinstance(scopes, list) or len(scopes) < 2 or NOWHERE in scopes:
        return ""
    return _below_root(str(scopes[-2]))


def _from_name(node: ir.Node) -> str:
    """The TorchScript exporter's node names: ``/network/blocks.0/act/Gelu``."""
    if not node.name or not node.name.startswith(f"/{ROOT}/"):
        return ""
    path = list[str]()
    for part in node.name.split("/")[1:-1]:
        if path and part.startswith(f"{path[-1]}."):
            path[-1] = part  # a Sequential's child repeats its parent's name
        else:
            path.append(part)
    return _below_root(".".join(path))


def _below_root(module: str) -> str:
    return TOP if module in ("", ROOT) else module.removeprefix(f"{ROOT}.")

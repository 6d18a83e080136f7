"""Module names: as both exporters leave them, kept by value name, adopted by nodes without."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest
import torch
from graphs import erf, model
from onnx import parser
from spellings import R2
from torch import nn

from gelu_deploy.graph import scopes
from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.scopes import MODULE, module_of
from gelu_deploy.options import ExportOptions
from gelu_deploy.originals.original import Exporter, ExportRequest
from gelu_deploy.target import load


class Functional(nn.Module):
    """A GELU without a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.linear(x))


class Nested(nn.Module):
    """GELUs at every depth at which Sequentials and lists put them, and one in the root."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.GELU())])
        self.features = nn.Sequential(
            nn.Sequential(nn.Linear(4, 4), nn.GELU("tanh")), nn.Sequential(nn.Sequential(nn.GELU())), Functional()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return nn.functional.gelu(self.features(x) * 2)


def exported(network: nn.Module, exporter: str, opset: int) -> ir.Model:
    original = load("gelu_deploy.exporters.loading:from_module")(network, torch.zeros(2, 4), ExportOptions())
    original.run(original.examples)
    export: Exporter = load(f"gelu_deploy.exporters.{exporter}:export")
    request = ExportRequest(opset, tuple(original.examples), ("y",))
    made = export(original.traceable(exporter, ("y",)), original.tensors(), request)
    scopes.normalise(made)
    return made


@pytest.mark.parametrize(("exporter", "opset"), [("dynamo", 20), ("torchscript", 20), ("torchscript", 17)])
def test_both_exporters_name_every_gelu_alike(exporter: str, opset: int) -> None:
    made = exported(Nested(), exporter, opset)
    assert [site.module for site in find(made).sites] == [
        "parts.0.1",
        "features.0.1",
        "features.1.0.0",
        "features.2",
        "(root)",
    ]
    assert all(module_of(node) for node in made.graph)
    assert all(set(node.metadata_props) == {MODULE} and not node.doc_string for node in made.graph)


def test_a_sequential_that_is_the_network_itself() -> None:
    made = exported(nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.GELU()), "torchscript", 20)
    assert [site.module for site in find(made).sites] == ["0.1", "1"]


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("/network/features/features.0/Relu", "features.0"),
        ("/network/features/features.0/features.0.1/Gelu", "features.0.1"),
        ("/network/network.0/network.0.1/Gelu", "0.1"),
        ("/network/blocks.10/blocks.10.1/Gelu", "blocks.10.1"),
        ("/network/block/blocks.1/Gelu", "block.blocks.1"),
        ("/network/Gelu", "(root)"),
        ("/blocks.0/act/Gelu", ""),
        ("Gelu_12", ""),
        ("", ""),
    ],
)
def test_names_as_the_torchscript_exporter_writes_them(name: str, module: str) -> None:
    graph = parsed("y = Relu(x)")
    graph.graph[0].name = name
    scopes.normalise(graph)
    assert module_of(graph.graph[0]) == module


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("['', 'network', 'network.blocks.0', 'network.blocks.0.act', 'gelu']", "blocks.0.act"),
        ("['', 'network', 'gelu']", "(root)"),
        ("['', 'gelu']", "(root)"),
        ("['gelu']", ""),
        ("no list", ""),
        ("__import__('os').getcwd()", ""),
        ("7", ""),
    ],
)
def test_metadata_as_the_dynamo_exporter_writes_it(text: str, module: str) -> None:
    graph = parsed("y = Relu(x)")
    graph.graph[0].metadata_props.update({"pkg.torch.onnx.name_scopes": text, "pkg.torch.onnx.stack_trace": "File"})
    scopes.normalise(graph)
    assert module_of(graph.graph[0]) == module
    assert set(graph.graph[0].metadata_props) <= {MODULE}


def parsed(body: str) -> ir.Model:
    head = '<ir_version: 10, opset_import: ["": 20]> g (float[N] x) => (float[N] y)'
    return ir.from_proto(parser.parse_model(f"{head} {{ {body} }}"))


def adopted(body: str, **modules: str) -> dict[str, str]:
    """Module of the maker of each value, once the makers of some have theirs."""
    graph = parsed(body)
    scopes.restore(graph, modules)
    return {node.outputs[0].name or "": module_of(node) for node in graph.graph}


def test_a_node_without_a_module_takes_that_of_its_only_user() -> None:
    assert adopted("a = Relu(x) b = Erf(a) y = Neg(b)", y="act") == {"a": "act", "b": "act", "y": "act"}


def test_between_two_users_it_takes_that_of_what_it_reads() -> None:
    made = adopted("a = Relu(x) b = Erf(a) c = Neg(b) d = Abs(b) y = Add(c, d)", a="stem", c="left", d="right")
    assert made == {"a": "stem", "b": "stem", "c": "left", "d": "right", "y": "left"}


def test_without_any_neighbour_that_knows_it_stays_without() -> None:
    assert adopted("a = Relu(x) y = Erf(a)") == {"a": "", "y": ""}


def test_what_a_tool_dropped_comes_back_by_value_name_and_what_it_kept_stays() -> None:
    graph = model(lambda x: x * (0.5 * (1 + erf(x / R2))))
    for place, node in enumerate(graph.graph):
        node.metadata_props[MODULE] = f"part.{place}"
    remembered = scopes.remember(graph)
    wanted = [module_of(node) for node in graph.graph]
    for node in list(graph.graph)[1:]:
        del node.metadata_props[MODULE]
    graph.graph[0].metadata_props[MODULE] = "new"
    scopes.restore(graph, remembered)
    assert [module_of(node) for node in graph.graph] == ["new", *wanted[1:]]


def test_a_node_inside_a_branch_keeps_its_own_module() -> None:
    text = """
      <ir_version: 10, opset_import: ["": 20]> g (bool c, float[N] x) => (float[N] y) {
        y = If (c) <then_branch = t () => (float[N] p) { p = Erf(x) },
                    else_branch = e () => (float[N] q) { q = Neg(x) }>
      }
    """
    graph = ir.from_proto(parser.parse_model(text))
    names: dict[str, Any] = {"y": "gate", "p": "gate.erf", "q": "gate.neg"}
    scopes.restore(graph, names)
    assert scopes.remember(graph) == names

"""Files that are invalid in a way whose meaning is plain: read as what was meant, and said so.

It knows two, both made by real tools: ``Gelu`` below opset 20, and com.microsoft operators without their import.
"""

from __future__ import annotations

import onnx_ir as ir

from gelu_deploy.graph.recognize import CONTRIB_DOMAIN, find
from gelu_deploy.graph.rewrite import Rewrite

GELU_SINCE = 20


def mend(model: ir.Model) -> list[str]:
    """Mend a model in place; one line for each thing that was mended."""
    notes = list[str]()
    domains = {node.domain for node in model.graph.all_nodes()}
    if CONTRIB_DOMAIN in domains and CONTRIB_DOMAIN not in model.opset_imports:
        model.opset_imports[CONTRIB_DOMAIN] = 1
        notes.append(f"the file uses {CONTRIB_DOMAIN} operators without importing them: the import was added")
    opset = model.opset_imports.get("", GELU_SINCE)
    if opset < GELU_SINCE and any(_is_gelu(node) for node in model.graph.all_nodes()):
        sites = tuple(site for site in find(model).sites if site.spelling == "gelu")
        Rewrite(sites, spelling="ops", opset=opset).apply(model)
        notes.append(f"the file holds {len(sites)} Gelu at opset {opset}, which has none: read as opset 20 means it")
    return notes


def _is_gelu(node: ir.Node) -> bool:
    return node.op_type == "Gelu" and node.domain in {"", "ai.onnx"}

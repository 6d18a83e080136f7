"""Attention in one operator of ONNX Runtime's own, which holds no score that it does not need at the moment.

``Attention`` of ONNX computes all scores before it goes on: queries times keys numbers, for every head.
``MultiHeadAttention`` works through them in pieces that fit a core's cache. It takes rows as a linear layer makes them,
so that the operators that cut them into heads and back are gone. It works on hollow or whole models.

Measured with ONNX Runtime 1.32.0 on a CPU of two cores: 0.94 of the time of ``Attention`` over 1500 places, and 0.42 of
the memory of the whole network; 0.97 to 0.98 over 197. With a mask, which has it make all scores, 0.99 to 1.01.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from gelu_deploy.graph.arithmetic import tensor_of, uniform
from gelu_deploy.graph.passes import Result
from gelu_deploy.graph.scopes import MODULE

DOMAIN, OPERATOR = "com.microsoft", "MultiHeadAttention"
HEADS_FIRST = [0, 2, 1, 3]
PLAIN = {"softcap": 0.0, "qk_matmul_output_mode": 0, "softmax_precision": 0, "is_causal": 0}
"""What ``Attention`` does besides, and the values of which that is nothing."""


HANDS_ON = {"Expand", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Tile"}
"""Operators that make nothing of their first input that was not there."""


def separate(model: ir.Model) -> bool:
    """Whether there is an ``Attention`` that :class:`WholeAttention` would write."""
    return any(_match(node) is not None for node in model.graph)


@dataclass(frozen=True)
class WholeAttention:
    """Every float32 ``Attention`` over heads that are cut from rows becomes one ``MultiHeadAttention``, in place.

    One with a mask stays, unless the mask is a constant that forbids nothing, as Hugging Face's ViT has it.
    """

    def apply(self, model: ir.Model) -> Result:
        """Works on the main graph of a model with shapes."""
        count = 0
        for node in list(model.graph):
            found = _match(node)  # only now: its rows may be what the one before makes
            if found is not None:
                found.write()
                count += 1
        if count:
            RemoveUnusedNodesPass()(model)
            model.graph.opset_imports[DOMAIN] = 1
        notes = (f"attention written as {DOMAIN} {OPERATOR} ({count})",) if count else ()
        return Result(model, modified=bool(count), notes=notes)


@dataclass(frozen=True)
class _Match:
    """An ``Attention``, the rows that it reads, how many heads are cut from each, and the rows that it makes."""

    node: ir.Node
    rows: Sequence[ir.Value]
    heads: int
    made: ir.Value

    def write(self) -> None:
        attributes = [ir.AttrInt64("num_heads", self.heads)]
        scale = self.node.attributes.get("scale")
        if scale is not None:
            attributes.append(ir.AttrFloat32("scale", scale.as_float()))
        last = self.made.producer()
        assert last is not None
        assert last.graph is not None
        output = ir.val(f"{self.made.name}.whole", type=self.made.type, shape=self.made.shape)
        node = ir.Node(DOMAIN, OPERATOR, self.rows, attributes, outputs=[output], name=self.node.name)
        if MODULE in self.node.metadata_props:
            node.metadata_props[MODULE] = self.node.metadata_props[MODULE]
        last.graph.insert_before(last, node)
        self.made.replace_all_uses_with(output, replace_graph_outputs=True)
        output.name, self.made.name = self.made.name, output.name


def _match(node: ir.Node) -> _Match | None:
    if node.op_type != "Attention" or node.domain:
        return None
    operands, mask, earlier = node.inputs[:3], node.inputs[3:4], node.inputs[4:]
    if any(value is not None for value in earlier) or any(map(_is_read, node.outputs[1:])):
        return None
    if any(value is not None and not _forbids_nothing(value) for value in mask):
        return None
    if any(_number(node, name) != value for name, value in PLAIN.items()):
        return None
    cuts, made = [_cut(value) for value in operands], _joined(node.outputs[0])
    if made is None or any(cut is None for cut in cuts):
        return None
    rows, heads = zip(*(cut for cut in cuts if cut), strict=True)
    floats = all(value.dtype == ir.DataType.FLOAT for value in rows)
    return _Match(node, rows, heads[0], made) if floats and len(set(heads)) == 1 else None


def _forbids_nothing(mask: ir.Value) -> bool:
    """Whether it is a constant that is true, or adds 0, everywhere."""
    allowed = 1.0 if mask.dtype == ir.DataType.BOOL else 0.0
    value: ir.Value | None = mask
    while value is not None and (maker := value.producer()) is not None and maker.op_type in HANDS_ON:
        value = maker.inputs[0]
    return value is not None and uniform(tensor_of(value)) == allowed


def _number(node: ir.Node, name: str) -> float:
    found = node.attributes.get(name)
    return 0.0 if found is None else float(found.value)


def _cut(value: ir.Value | None) -> tuple[ir.Value, int] | None:
    """The rows [N, L, heads · size] that ``value`` [N, heads, L, size] is cut from, and how many heads."""
    turned = None if value is None else _maker(value, "Transpose")
    shaped = None if turned is None or not _turns(turned) else turned.inputs[0]
    reshape = None if shaped is None else _maker(shaped, "Reshape")
    rows = None if reshape is None else reshape.inputs[0]
    if rows is None or shaped is None or not _splits(rows, shaped):
        return None
    assert shaped.shape is not None
    heads = shaped.shape[2]
    assert isinstance(heads, int)
    return rows, heads


def _joined(value: ir.Value) -> ir.Value | None:
    """The rows that ``value`` is joined to, if it is read for nothing else."""
    turn = _only_reader(value, "Transpose")
    if turn is None or not _turns(turn):
        return None
    join = _only_reader(turn.outputs[0], "Reshape")
    return join.outputs[0] if join is not None and _splits(join.outputs[0], turn.outputs[0]) else None


def _splits(rows: ir.Value, heads: ir.Value) -> bool:
    """Whether these are [N, L, h · d] and [N, L, h, d], for the same N and L."""
    if rows.shape is None or heads.shape is None or len(rows.shape) != 3 or len(heads.shape) != 4:
        return False
    width, h, d = rows.shape[2], heads.shape[2], heads.shape[3]
    if not (isinstance(h, int) and isinstance(d, int) and width == h * d):
        return False
    return all(_same(one, other) for one, other in zip(rows.shape[:2], heads.shape[:2], strict=True))


def _same(one: int | ir.SymbolicDim, other: int | ir.SymbolicDim) -> bool:
    named = not isinstance(one, ir.SymbolicDim) or one.value is not None
    return named and one == other


def _turns(node: ir.Node) -> bool:
    return list(node.attributes.get_ints("perm", [])) == HEADS_FIRST


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _maker(value: ir.Value, op: str) -> ir.Node | None:
    node = value.producer()
    return node if node is not None and node.op_type == op and not node.domain else None


def _only_reader(value: ir.Value, op: str) -> ir.Node | None:
    users = [use.node for use in value.uses()]
    node = users[0] if len(users) == 1 and not value.is_graph_output() else None
    return node if node is not None and node.op_type == op and not node.domain else None

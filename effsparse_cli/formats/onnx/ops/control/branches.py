"""Branches, and bodies that are applied to each item. A known condition selects its branch; otherwise either may be
taken, and the condition is one more input."""

from __future__ import annotations

from onnx import GraphProto

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, SequenceValue, Value
from effsparse_cli.formats.onnx.operators import MisfitError, NotLoweredError, Result, operator

BRANCHES = ("then_branch", "else_branch")


@operator("If", primitives="the branch taken, or Join of both", constants="lowered")
def if_(c: OpCall) -> Result:
    condition = c.value(0)
    if isinstance(condition, ConstantValue):
        name = BRANCHES[0] if bool(condition.array.reshape(-1)[0]) else BRANCHES[1]
        return c.scope.subgraph(c, name, {}).run(c.attr(name))
    branches = _possible(c)
    if len(branches) == 1:
        return branches[0]
    joined: list[Value] = []
    for a, b in zip(*branches, strict=True):
        nodes = [c.node_of(a), c.node_of(b)]
        if c.b.shape(nodes[0]) != c.b.shape(nodes[1]):
            raise NotLoweredError("its branches have different shapes")
        decides = c.b.reduce(condition.node, None, keepdim=False)
        joined.append(LiveValue(c.b.join(*nodes, decides, keeps_zero=False)))
    return joined


def _possible(c: OpCall) -> list[list[Value]]:
    """Return the outputs of each branch. A branch that does not accept the input shapes cannot be the one that is
    taken."""
    branches, faults = [], []
    for name in BRANCHES:
        nodes, layers = len(c.b.nodes), dict(c.b.layers)
        try:
            branches.append(c.scope.subgraph(c, name, {}).run(c.attr(name)))
        except MisfitError as fault:
            c.b.rewind(nodes, layers)
            faults.append(fault)
            c.scope.state.note(f"the {name} of If {c.node.name!r} does not accept these input shapes and was ignored")
    if not branches:
        raise faults[0]
    return branches


@operator("SequenceMap", primitives="the body for each item", constants="lowered")
def sequence_map(c: OpCall) -> Result:
    body: GraphProto = c.attr("body")
    rows: list[list[Value]] = []
    for i in range(len(c.items(0).values)):
        values = [v.values[i] if isinstance(v, SequenceValue) else v for v in c.inputs]
        given = {value.name: x for value, x in zip(body.input, values, strict=True) if x is not None}
        rows.append(c.scope.subgraph(c, "body", given).run(body))
    return [SequenceValue(tuple(row[j] for row in rows)) for j in range(len(body.output))]

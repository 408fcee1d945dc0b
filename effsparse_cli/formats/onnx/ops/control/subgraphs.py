"""Operators with subgraphs: If, Scan and SequenceMap, and what the bodies of loops and scans share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onnx import GraphProto

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, SequenceValue, Value
from effsparse_cli.formats.onnx.operators import MisfitError, NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.proto import names_from_outside
from effsparse_cli.graph.builder import Builder

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
    """Return the outputs of each branch. A branch that does not accept the input shapes is never taken."""
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
        rows.append(c.scope.subgraph(c, "body", bind_inputs(body, values)).run(body))
    return [SequenceValue(tuple(row[j] for row in rows)) for j in range(len(body.output))]


def bind_inputs(body: GraphProto, values: Sequence[Value | None]) -> dict[str, Value]:
    """Return the values of a body's inputs by name."""
    return {given.name: value for given, value in zip(body.input, values, strict=True) if value is not None}


def captured(c: OpCall, body: GraphProto, fixed: Mapping[str, Value]) -> dict[str, LiveValue]:
    """Return the live values from outside that a body uses, by their names in the body."""
    free = sorted(names_from_outside(body))
    found: dict[str, Value] = {name: c.scope.values[name] for name in free if name in c.scope.values}
    found.update(fixed)
    if any(isinstance(value, SequenceValue) for value in found.values()):
        raise NotLoweredError("a sequence is used inside it")
    return {name: value for name, value in found.items() if isinstance(value, LiveValue)}


def run_body(
    c: OpCall,
    body: GraphProto,
    builder: Builder,
    given: Mapping[str, Value],
    fixed: Mapping[str, Value],
    around: Mapping[str, LiveValue],
    invariants: Sequence[int],
) -> list[int]:
    """Lower one iteration in a separate builder, where live values from outside are invariants."""
    constants = {name: value for name, value in fixed.items() if isinstance(value, ConstantValue)}
    inside = {name: LiveValue(v, shifted=around[name].shifted) for name, v in zip(around, invariants, strict=True)}
    scope = c.scope.subgraph(c, "body", {**constants, **inside, **given}, builder)
    call = OpCall(scope, c.node, [])
    return [call.node_of(value) for value in scope.run(body)]


def as_before(b: Builder, before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Return new states in the shapes of the old ones: a scalar and a list of one number are the same."""
    for x, y in zip(before, after, strict=True):
        if math.prod(b.shape(x)) != math.prod(b.shape(y)):
            raise NotLoweredError(f"a state changes its shape from {list(b.shape(x))} to {list(b.shape(y))}")
    return [b.reshape(y, b.shape(x)) for x, y in zip(before, after, strict=True)]


@operator("Scan", primitives="Scan", constants="lowered")
def scan(c: OpCall) -> Result:
    if c.opset < 9:
        raise NotLoweredError("the batched form of opset 8")
    body: GraphProto = c.attr("body")
    scanned = c.attr("num_scan_inputs")
    n_states = len(c.inputs) - scanned
    outs = len(c.node.output) - n_states
    in_axes, out_axes = c.attr("scan_input_axes") or [0] * scanned, c.attr("scan_output_axes") or [0] * outs
    in_back = c.attr("scan_input_directions") or [0] * scanned
    out_back = c.attr("scan_output_directions") or [0] * outs
    sequences = [_step_first(c, c.x(n_states + i), in_axes[i], in_back[i]) for i in range(scanned)]
    states = [c.x(i) for i in range(n_states)]
    around = captured(c, body, {})

    def step(inner: Builder, values: Sequence[int]) -> list[int]:
        split = n_states + scanned
        given = {v.name: LiveValue(x) for v, x in zip(body.input, values[:split], strict=True)}
        results = run_body(c, body, inner, given, {}, around, values[split:])
        return [*as_before(inner, values[:n_states], results[:n_states]), *results[n_states:]]

    results = c.b.scan(step, states, sequences, [value.node for value in around.values()])
    for i in range(outs):
        stacked = results[n_states + i]
        if out_back[i]:
            stacked = c.b.slice(stacked, 0, None, None, -1)
        rank = len(c.b.shape(stacked))
        order = list(range(1, rank))
        order.insert(out_axes[i] % rank, 0)
        results[n_states + i] = c.b.permute(stacked, order)
    return results


def _step_first(c: OpCall, x: int, axis: int, backward: int) -> int:
    rank = len(c.b.shape(x))
    axis %= rank
    x = c.b.permute(x, [axis, *(i for i in range(rank) if i != axis)])
    return c.b.slice(x, 0, None, None, -1) if backward else x

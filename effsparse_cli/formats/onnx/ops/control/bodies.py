"""Bodies of loops and scans: lowered once in a builder of their own, where live values from outside are invariants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onnx import GraphProto

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, SequenceValue, Value
from effsparse_cli.formats.onnx.operators import NotLoweredError
from effsparse_cli.formats.onnx.proto.subgraphs import free_names
from effsparse_cli.graph.builder import Builder


def captured(c: OpCall, body: GraphProto, fixed: Mapping[str, Value]) -> dict[str, LiveValue]:
    """Return the live values from outside that a body uses, by their names in the body."""
    local = {t.name for t in body.initializer} | {v.name for v in body.input}
    free = free_names(body.node, local)
    free |= {v.name for v in body.output} - local - {name for node in body.node for name in node.output}
    found: dict[str, Value] = {name: c.scope.values[name] for name in sorted(free) if name in c.scope.values}
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

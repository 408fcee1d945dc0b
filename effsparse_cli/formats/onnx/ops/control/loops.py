"""Loops. A known number of iterations is unrolled or scanned. Otherwise there may be any number of iterations, and
every state depends on the condition. States that a body passes through are constants of the loop: converters pass
weights that way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto

from effsparse_cli.formats.onnx.lowering.constants import joined
from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, Value, constant_value
from effsparse_cli.formats.onnx.operators import Result, operator
from effsparse_cli.formats.onnx.ops.control.subgraphs import as_before, bind_inputs, captured, run_body
from effsparse_cli.formats.onnx.proto import free_names
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import Shape

MOST_UNROLLED = 4096
"""Number of operators up to which loops are unrolled. The number of each iteration is known then."""

MOST_ITERATIONS = 1 << 14
"""Number of iterations from which on any number is assumed."""


@operator("Loop", primitives="the iterations unrolled, or Scan", constants="lowered")
def loop(c: OpCall) -> Result:
    body: GraphProto = c.attr("body")
    iterations = c.constant(0)
    count = int(iterations.array.reshape(-1)[0]) if iterations is not None else None
    if not c.is_live(0) and not c.is_live(1):
        unrolled = _unrolled(c, body, count)
        if unrolled is not None:
            return unrolled
        if count is not None and count <= MOST_ITERATIONS and _always_continues(c, body):
            return _fixed_iterations(c, body, count)
    return _any_iterations(c, body)


def _unrolled(c: OpCall, body: GraphProto, count: int | None) -> list[Value] | None:
    """Return None if the condition is live, or there are too many iterations."""
    condition: Value = c.value(1) if c.has(1) else constant_value(np.asarray(True))
    states = list(c.inputs[2:])
    slices: list[list[Value]] = [[] for _ in body.output[1 + len(states) :]]
    most = MOST_UNROLLED // max(len(body.node), 1)
    if count is not None and count > most:
        return None
    iteration, nodes, layers = 0, len(c.b.nodes), dict(c.b.layers)
    while (count is None or iteration < count) and iteration <= most:
        if not isinstance(condition, ConstantValue):
            c.b.rewind(nodes, layers)
            return None
        if not bool(condition.array.reshape(-1)[0]):
            break
        values = [constant_value(np.full(_iteration_shape(body), iteration, np.int64)), condition, *states]
        condition, *results = c.scope.subgraph(c, "body", bind_inputs(body, values)).run(body)
        states = list(results[: len(states)])
        for gathered, piece in zip(slices, results[len(states) :], strict=True):
            gathered.append(piece)
        iteration += 1
    if iteration > most:
        c.b.rewind(nodes, layers)
        return None
    return [*[s for s in states if s is not None], *(_stacked(c, pieces) for pieces in slices)]


def _stacked(c: OpCall, pieces: Sequence[Value]) -> Value:
    if not pieces:
        return constant_value(np.zeros((0,), np.float32))
    constants = [piece for piece in pieces if isinstance(piece, ConstantValue)]
    if len(constants) == len(pieces):
        return joined(c, constants, 0, stacked=True)
    return LiveValue(c.b.stack([c.node_of(piece) for piece in pieces], 0))


def _always_continues(c: OpCall, body: GraphProto) -> bool:
    """Whether the condition that the body returns is always true."""
    name = _source(body, body.output[0].name)
    made = {n for node in body.node for n in node.output if node.op_type == "Constant"}
    value = c.scope.values.get(name)
    fixed = isinstance(value, ConstantValue) and bool(value.array.reshape(-1)[0])
    return name == body.input[1].name or name in made or fixed


def _source(body: GraphProto, name: str) -> str:
    """Return the name of a value before nodes that only pass it on."""
    made = {out: node for node in body.node for out in node.output}
    while name in made and made[name].op_type in ("Identity", "Cast"):
        name = made[name].input[0]
    return name


@dataclass(frozen=True)
class States:
    """The states of a loop by position: those that an iteration reads and changes, those that it passes through (by
    their names in the body), and those that it writes without reading."""

    varying: tuple[int, ...]
    fixed: dict[str, Value]
    written: tuple[int, ...]


def _states(c: OpCall, body: GraphProto) -> States:
    read = free_names(body.node, set())
    varying, written, fixed = [], [], {}
    for i, value in enumerate(c.inputs[2:]):
        name = body.input[2 + i].name
        if body.output[1 + i].name == name and value is not None:
            fixed[name] = value
        elif name in read or name in {output.name for output in body.output}:
            varying.append(i)
        else:
            written.append(i)
    return States(tuple(varying), fixed, tuple(written))


def _fixed_iterations(c: OpCall, body: GraphProto, count: int) -> list[int | Value]:
    kinds = _states(c, body)
    states = [c.x(2 + i) for i in kinds.varying]
    around = captured(c, body, kinds.fixed)
    first = {body.input[1].name: constant_value(np.asarray(True))}

    def step(inner: Builder, values: Sequence[int]) -> list[int]:
        given: dict[str, Value] = {**first, body.input[0].name: _any_iteration(inner, body)}
        given |= {body.input[2 + i].name: LiveValue(v) for i, v in zip(kinds.varying, values, strict=False)}
        results = run_body(c, body, inner, given, kinds.fixed, around, values[len(states) :])
        new = as_before(inner, values[: len(states)], [results[1 + i] for i in kinds.varying])
        return [*new, *(results[1 + i] for i in kinds.written), *results[len(c.inputs) - 1 :]]

    done = c.b.scan(step, states, invariants=[value.node for value in around.values()], steps=count)
    n, m = len(states), len(states) + len(kinds.written)
    last = [c.b.take_one(stacked, 0, -1) for stacked in done[n:m]]
    return [*_finals(c, kinds, done[:n], last), *done[m:]]


def _finals(c: OpCall, kinds: States, varying: Sequence[int], written: Sequence[int]) -> list[int | Value]:
    """Return the final states in the order of the outputs."""
    by_place = dict(zip(kinds.varying + kinds.written, [*varying, *written], strict=True))
    return [by_place.get(i, c.value(2 + i)) for i in range(len(c.inputs) - 2)]


def _any_iterations(c: OpCall, body: GraphProto) -> list[int | Value]:
    kinds = _states(c, body)
    condition = c.b.reshape(c.x(1), ()) if c.has(1) else c.b.constant(True, ())
    states = [condition, *(c.x(2 + i) for i in kinds.varying)]
    names = [body.input[1].name, *(body.input[2 + i].name for i in kinds.varying)]
    around = captured(c, body, kinds.fixed)
    _remember_shapes(c, body)

    def step(inner: Builder, values: Sequence[int]) -> list[int]:
        given: dict[str, Value] = {name: LiveValue(v) for name, v in zip(names, values, strict=False)}
        given[body.input[0].name] = _any_iteration(inner, body)
        results = run_body(c, body, inner, given, kinds.fixed, around, values[len(states) :])
        new = as_before(inner, values[: len(states)], [results[0], *(results[1 + i] for i in kinds.varying)])
        return [inner.join(v, old, values[0]) for v, old in zip(new, values, strict=False)]

    final = c.b.scan(step, states, invariants=[value.node for value in around.values()])
    decides = [final[0], *([c.b.reduce(c.x(0), None, keepdim=False)] if c.has(0) else [])]
    last = {**kinds.fixed, **dict(zip(names, map(LiveValue, final), strict=True))}
    written, slices = _once_more(c, body, kinds, last, decides)
    return [*_finals(c, kinds, [c.b.join(state, *decides) for state in final[1:]], written), *slices]


def _remember_shapes(c: OpCall, body: GraphProto) -> None:
    """Lower the first iteration with the values at its start: sizes that depend on a counter are known only there."""
    nodes, layers, notes = len(c.b.nodes), dict(c.b.layers), len(c.scope.state.guesses.notes)
    start = constant_value(np.zeros(_iteration_shape(body), np.int64))
    values = [start, c.get(1) or constant_value(np.asarray(True)), *c.inputs[2:]]
    first = c.scope.subgraph(c, "body", bind_inputs(body, values))
    first.run(body)
    made = {n: first.values.get(n) for node in body.node for n in node.output}
    shapes = {n: c.shape_of(v) for n, v in made.items() if isinstance(v, LiveValue | ConstantValue)}
    c.scope.state.guesses.remembered.update(shapes)
    del c.scope.state.guesses.notes[notes:]
    c.b.rewind(nodes, layers)


def _once_more(
    c: OpCall, body: GraphProto, kinds: States, given: Mapping[str, Value], decides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Lower one more iteration at the fixed point. Return the states that are only written, and stacked outputs."""
    states = len(c.inputs) - 2
    names = list(c.node.output[states:])
    if not names and not kinds.written:
        return [], []
    start = {body.input[0].name: _any_iteration(c.b, body)}
    unread = {body.input[2 + i].name: c.value(2 + i) for i in kinds.written}
    results = c.scope.subgraph(c, "body", {**unread, **given, **start}).run(body)
    written = [c.b.join(c.node_of(results[1 + i]), *decides) for i in kinds.written]
    stacked = []
    for name, piece in zip(names, results[1 + states :], strict=True):
        node = c.b.join(c.node_of(piece), *decides)
        shape = c.b.shape(node)
        iterations = c.scope.state.guesses.shape(name, (1, *shape))[:1] or (1,)
        c.scope.state.guesses.made = True
        stacked.append(c.b.expand(c.b.reshape(node, (1, *shape)), (max(iterations[0], 1), *shape)))
    return written, stacked


def _iteration_shape(body: GraphProto) -> Shape:
    """Return the shape of the iteration number, which some converters declare as a list of one."""
    return (1,) * len(body.input[0].type.tensor_type.shape.dim)


def _any_iteration(b: Builder, body: GraphProto) -> LiveValue:
    return LiveValue(b.constant(True, _iteration_shape(body)))

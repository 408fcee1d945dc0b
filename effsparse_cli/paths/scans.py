"""A Scan in the pass: the pass runs over its body once per step, forward in time and back, or to a fixed point if the
number of steps is not known. A step with the same inputs as the one before is not repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import numpy as np

from effsparse_cli.graph.primitives import Scan, Shape
from effsparse_cli.paths.algebra import Arrays, F, Flow, T
from effsparse_cli.paths.rules import zeros

if TYPE_CHECKING:
    from effsparse_cli.paths.passes import Pass


@dataclass(frozen=True, eq=False)
class Steps(Generic[T]):
    """A Scan after the forward pass: its results, and the values of the body at every step, in order of execution."""

    results: list[Flow[T]]
    values: list[list[Flow[T] | Steps[T] | None]]


Values = list[Flow[T] | Steps[T] | None]


def flow_of(value: Flow[T] | Steps[T] | None) -> Flow[T]:
    assert isinstance(value, Flow)
    return value


def run_forward(pass_: Pass[T, F], op: Scan, inputs: Sequence[Flow[T]]) -> Steps[T]:
    if op.steps is None:
        return _fixed_point_forward(pass_, op, inputs)
    body, arrays = op.body, pass_.arrays
    shapes = [body.nodes[i].shape for i in body.sources]
    states, sequences = list(inputs[: op.states]), inputs[op.states : op.states + op.scanned]
    values: list[Values[T]] = []
    outputs: list[list[Flow[T]]] = []
    last: list[Flow[T]] = []
    for step in _order(op):
        slices = [
            _each(flow, lambda a, k=k, step=step: _slice(arrays, a, step, shapes[op.states + k]))  # type: ignore[misc]
            for k, flow in enumerate(sequences)
        ]
        given = [*states, *slices, *inputs[op.states + op.scanned :]]
        repeated = bool(values) and all(_same(arrays, a, b) for a, b in zip(given, last, strict=True))
        values.append(values[-1] if repeated else pass_.forward(body, given))
        outputs.append([flow_of(values[-1][i]) for i in body.outputs])
        states, last = outputs[-1][: op.states], given
    in_time = outputs[::-1] if op.reverse else outputs
    stacked = []
    for k in range(op.states, len(body.outputs)):
        shape = body.nodes[body.outputs[k]].shape
        live = _stack(arrays, [o[k].live for o in in_time], shape)
        shared = all(o[k].live is o[k].nonzero for o in in_time)
        stacked.append(Flow(live, live if shared else _stack(arrays, [o[k].nonzero for o in in_time], shape)))
    return Steps([*states, *stacked], values)


def run_backward(pass_: Pass[T, F], op: Scan, steps: Steps[T], picked: dict[int, T]) -> list[T]:
    """Return the relevance of the inputs from that of the results that are used."""
    body, arrays = op.body, pass_.arrays
    shapes = [body.nodes[i].shape for i in body.outputs]
    sources = [body.nodes[i].shape for i in body.sources]
    if op.steps is None:
        return _fixed_point_backward(pass_, op, steps, picked)
    relevance = [picked.get(k, zeros(arrays, shapes[k])) for k in range(op.states)]
    slices: list[list[T]] = []
    invariants = [zeros(arrays, s) for s in sources[op.states + op.scanned :]]
    last: tuple[Values[T], list[T], list[T]] | None = None
    for step, values in zip(reversed(_order(op)), reversed(steps.values), strict=True):
        given = list(relevance)
        for k in range(op.states, len(shapes)):
            read = picked.get(k)
            given.append(zeros(arrays, shapes[k]) if read is None else _slice(arrays, read, step, shapes[k]))
        if last and last[0] is values and all(arrays.same(a, b) for a, b in zip(last[1], given, strict=True)):
            back = last[2]
        else:
            back = pass_.backward(body, values, given)
        last = values, given, back
        relevance = back[: op.states]
        slices.append(back[op.states : op.states + op.scanned])
        invariants = [arrays.plus(pair) for pair in zip(invariants, back[op.states + op.scanned :], strict=True)]
    in_time = slices if op.reverse else slices[::-1]
    sequences = [_stack(arrays, [s[k] for s in in_time], sources[op.states + k]) for k in range(op.scanned)]
    return [*relevance, *sequences, *invariants]


def _fixed_point_forward(pass_: Pass[T, F], op: Scan, inputs: Sequence[Flow[T]]) -> Steps[T]:
    """Any number of steps: a state is live where it can become live. Saturated: there are infinitely many paths."""
    arrays = pass_.arrays
    states, rest = [_each(flow, arrays.support) for flow in inputs[: op.states]], inputs[op.states :]
    while True:
        values = pass_.forward(op.body, [*states, *rest])
        new = [flow_of(values[i]) for i in op.body.outputs[: op.states]]
        grown = [
            Flow(_union(arrays, a.live, b.live), _union(arrays, a.nonzero, b.nonzero))
            for a, b in zip(states, new, strict=True)
        ]
        if all(_same(arrays, a, b) for a, b in zip(states, grown, strict=True)):
            return Steps(states, [values])
        states = grown


def _fixed_point_backward(pass_: Pass[T, F], op: Scan, steps: Steps[T], picked: dict[int, T]) -> list[T]:
    arrays = pass_.arrays
    shapes = [op.body.nodes[i].shape for i in op.body.outputs]
    states = [arrays.support(picked.get(k, zeros(arrays, shapes[k]))) for k in range(op.states)]
    while True:
        back = pass_.backward(op.body, steps.values[0], states)
        grown = [_union(arrays, a, b) for a, b in zip(states, back[: op.states], strict=True)]
        if all(arrays.same(a, b) for a, b in zip(states, grown, strict=True)):
            return [*states, *back[op.states :]]
        states = grown


def _order(op: Scan) -> list[int]:
    return list(range(op.steps or 0))[:: -1 if op.reverse else 1]


def _union(arrays: Arrays[T], a: T, b: T) -> T:
    return arrays.support(arrays.plus([a, b]))


def _each(flow: Flow[T], change: Callable[[T], T]) -> Flow[T]:
    live = change(flow.live)
    return Flow(live, live if flow.nonzero is flow.live else change(flow.nonzero))


def _slice(arrays: Arrays[T], a: T, step: int, shape: Shape) -> T:
    return arrays.reshape(arrays.take(a, 0, np.array([step])), (1, *shape), shape)


def _stack(arrays: Arrays[T], parts: Sequence[T], shape: Shape) -> T:
    if not parts:
        return zeros(arrays, (0, *shape))
    return arrays.concat([arrays.reshape(p, shape, (1, *shape)) for p in parts], 0, [1] * len(parts))


def _same(arrays: Arrays[T], a: Flow[T], b: Flow[T]) -> bool:
    return arrays.same(a.live, b.live) and arrays.same(a.nonzero, b.nonzero)

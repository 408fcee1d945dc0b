"""LSTM, GRU and RNN, whole layers and single cells: both directions, several layers, projections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, Const, Lowered, nonzero
from effsparse_cli.graph import layers
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.layers import AddWeight
from effsparse_cli.graph.primitives import Bools

operator = family("recurrent", contracts=True, uses_weights=True, largest=1 << 20)


class UnstoredError(Exception):
    """A recurrent weight that is not one stored tensor."""


def place(low: Lowering, weight: Arg, op: str) -> AddWeight:
    if not isinstance(weight, Const) or len(weight.parts) != 1:
        raise UnstoredError

    def put(b: Builder) -> int:
        return low.weights(weight, lambda ghost: ghost, op, b)[0]

    return put


def _bias(*parts: Const | None) -> Bools | None:
    """Of the sum: that is what reaches the gates."""
    known = [p.tensor for p in parts if p is not None]
    return nonzero(sum(known[1:], known[0])) if known else None


def _direction(low: Lowering, op: str, xs: int, states: list[int], p: Sequence[Any], reverse: bool) -> list[int]:
    """One direction of one layer: [final states ..., all h]. `p` is (w_x, w_h, b_x, b_h, projection)."""
    w_x, w_h = place(low, p[0], op), place(low, p[1], op)
    if op == "lstm":
        project = place(low, p[4], op) if p[4] is not None else None
        h, c = states
        return layers.lstm(low.b, xs, h, c, w_x, w_h, _bias(p[2], p[3]), reverse, project=project)
    if op == "gru":
        return layers.gru(low.b, xs, states[0], w_x, w_h, _bias(p[2]), _bias(p[3]), reverse)
    return layers.rnn(low.b, xs, states[0], w_x, w_h, _bias(p[2], p[3]), reverse)


def _grouped(params: Sequence[Any], biases: bool, projected: bool) -> Iterator[tuple[Any, ...]]:
    step = 2 + 2 * biases + projected
    for i in range(0, len(params), step):
        own = list(params[i : i + step])
        projection = own.pop() if projected else None
        yield (*own, *(None,) * (4 - len(own)), projection)


def _layers(
    low: Lowering, op: str, x: Arg, hx: list[Any], params: list[Any], biases: bool, count: int, both: bool, first: bool
) -> Lowered:
    directions = 2 if both else 1
    projected = len(params) == count * directions * (2 + 2 * biases + 1)
    groups = list(_grouped(params, biases, projected))
    xs = low.b.transpose(low.node(x), 0, 1) if first else low.node(x)
    initial = [low.node(h) for h in hx]
    finals: list[list[int]] = [[] for _ in hx]
    for layer in range(count):
        sides = []
        for d in range(directions):
            n = layer * directions + d
            states = [low.b.take_one(h, 0, n) for h in initial]
            *last, every = _direction(low, op, xs, states, groups[n], reverse=d == 1)
            sides.append(every)
            for kept, state in zip(finals, last, strict=True):
                kept.append(state)
        xs = low.b.concat(sides, -1)
    xs = low.b.transpose(xs, 0, 1) if first else xs
    return [xs, *(low.b.stack(kept, 0) for kept in finals)]


@operator("lstm.input")
def lstm(
    low: Lowering, x: Arg, hx: list[Any], params: list[Any], biases: bool, count: int, dropout: float, train: bool,
    both: bool, first: bool,
) -> Lowered:  # fmt: skip
    try:
        return _layers(low, "lstm", x, hx, params, biases, count, both, first)
    except UnstoredError:
        return NotImplemented


@operator("gru.input", "rnn_tanh.input", "rnn_relu.input")
def gru_or_rnn(
    low: Lowering, x: Arg, hx: Arg, params: list[Any], biases: bool, count: int, dropout: float, train: bool,
    both: bool, first: bool,
) -> Lowered:  # fmt: skip
    try:
        return _layers(low, low.call.name.split("_")[0], x, [hx], params, biases, count, both, first)
    except UnstoredError:
        return NotImplemented


@operator("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def cell(low: Lowering, x: Arg, hx: Arg, w_x: Arg, w_h: Arg, b_x: Arg, b_h: Arg) -> Lowered:
    """A single step is a sequence of one."""
    node = low.node(x)
    states = [low.node(h) for h in (hx if isinstance(hx, list | tuple) else [hx])]
    try:
        op = low.call.name.split("_")[0]
        *last, _ = _direction(
            low, op, low.b.reshape(node, (1, *low.b.shape(node))), states, (w_x, w_h, b_x, b_h, None), False
        )
    except UnstoredError:
        return NotImplemented
    return last if op == "lstm" else last[0]

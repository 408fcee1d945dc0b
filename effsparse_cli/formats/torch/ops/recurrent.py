"""LSTM, GRU and RNN: whole layers with directions and projections, and single cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.tensors import nonzero
from effsparse_cli.formats.torch.values import Arg, ConstantValue, Result
from effsparse_cli.graph import layers
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.layers import AddWeight
from effsparse_cli.graph.primitives import Bools

operator = family("recurrent", contracts=True, uses_weights=True, most_evaluated=1 << 20)


class UnstoredError(Exception):
    """A recurrent weight is not one stored tensor."""


def place(call: OpCall, weight: Arg, op: str) -> AddWeight:
    if not isinstance(weight, ConstantValue) or len(weight.parts) != 1:
        raise UnstoredError

    def put(b: Builder) -> int:
        return call.weights(weight, lambda elements: elements, op, b)[0]

    return put


def _bias(*parts: ConstantValue | None) -> Bools | None:
    """Return where the sum of the biases is not zero."""
    known = [p.tensor for p in parts if p is not None]
    return nonzero(sum(known[1:], known[0])) if known else None


def _direction(call: OpCall, op: str, xs: int, states: list[int], p: Sequence[Any], reverse: bool) -> list[int]:
    """Lower one direction of one layer to [*final states, all h]; `p` is (w_x, w_h, b_x, b_h, projection)."""
    w_x, w_h = place(call, p[0], op), place(call, p[1], op)
    if op == "lstm":
        project = place(call, p[4], op) if p[4] is not None else None
        h, c = states
        return layers.lstm(call.b, xs, h, c, w_x=w_x, w_h=w_h, bias=_bias(p[2], p[3]), reverse=reverse, project=project)
    if op == "gru":
        return layers.gru(
            call.b, xs, states[0], w_x=w_x, w_h=w_h, bias_x=_bias(p[2]), bias_h=_bias(p[3]), reverse=reverse
        )
    return layers.rnn(call.b, xs, states[0], w_x=w_x, w_h=w_h, bias=_bias(p[2], p[3]), reverse=reverse)


def _grouped(params: Sequence[Any], biases: bool, projected: bool) -> Iterator[tuple[Any, ...]]:
    step = 2 + 2 * biases + projected
    for i in range(0, len(params), step):
        own = list(params[i : i + step])
        projection = own.pop() if projected else None
        yield (*own, *(None,) * (4 - len(own)), projection)


@operator("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def recurrent(
    call: OpCall, x: Arg, hx: Arg, params: list[Any], biases: bool, count: int, dropout: float, train: bool,
    both: bool, first: bool,
) -> Result:  # fmt: skip
    op, directions = call.name.split("_")[0], 2 if both else 1
    projected = len(params) == count * directions * (2 + 2 * biases + 1)
    groups = list(_grouped(params, biases, projected))
    xs = call.b.transpose(call.node(x), 0, 1) if first else call.node(x)
    initial = [call.node(h) for h in (hx if isinstance(hx, list | tuple) else [hx])]
    finals: list[list[int]] = [[] for _ in initial]
    for layer in range(count):
        sides = []
        for d in range(directions):
            n = layer * directions + d
            states = [call.b.take_one(h, 0, n) for h in initial]
            try:
                *last, every = _direction(call, op, xs, states, groups[n], reverse=d == 1)
            except UnstoredError:
                return NotImplemented
            sides.append(every)
            for kept, state in zip(finals, last, strict=True):
                kept.append(state)
        xs = call.b.concat(sides, -1)
    xs = call.b.transpose(xs, 0, 1) if first else xs
    return [xs, *(call.b.stack(kept, 0) for kept in finals)]


@operator("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def cell(call: OpCall, x: Arg, hx: Arg, w_x: Arg, w_h: Arg, b_x: Arg, b_h: Arg) -> Result:
    """A single step is a sequence of length one."""
    node = call.node(x)
    states = [call.node(h) for h in (hx if isinstance(hx, list | tuple) else [hx])]
    try:
        op = call.name.split("_")[0]
        xs = call.b.reshape(node, (1, *call.b.shape(node)))
        *last, _ = _direction(call, op, xs, states, (w_x, w_h, b_x, b_h, None), False)
    except UnstoredError:
        return NotImplemented
    return last if op == "lstm" else last[0]

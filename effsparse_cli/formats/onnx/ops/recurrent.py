"""Recurrent layers: one Scan per direction, with gates from `graph.layers`, for sequences of any lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.weights import known_weight, place
from effsparse_cli.formats.onnx.operators import NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.tensors.stored import Array, nonzero
from effsparse_cli.graph import layers
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.primitives import Bools

KEEP_ZERO = {"tanh", "relu", "softsign", "leakyrelu", "thresholdedrelu", "elu", "affine", "scaledtanh"}
IFGO, RZN = (0, 2, 3, 1), (1, 0, 2)
"""Positions of the gates in torch's order. ONNX has the orders iofg and zrn."""
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
ROLES = {1: "W", 2: "R", 3: "B"}
Cell = Callable[[Builder, int, int, bool], list[int]]
"""(builder, sequence [steps, batch, in], direction, backward) -> [final states..., all h]"""


def _weight(c: OpCall, i: int, direction: int, gates: Sequence[int]) -> layers.AddWeight:
    rows = _rows(gates, c.shape(2)[2])
    part = known_weight(c.value(i)).moved(lambda a: a[direction][rows])
    return lambda builder: place(c, part, c.node.op_type.lower(), builder=builder)


def _rows(gates: Sequence[int], hidden: int) -> Array:
    """Return the rows of some gates in torch's order, so that both files of a model have equal results."""
    return np.concatenate([np.arange(hidden) + gate * hidden for gate in gates])


def _state(c: OpCall, i: int, direction: int, xs: int) -> int:
    """Return the initial state of one direction, [batch, hidden]; zeros if it is absent."""
    if not c.has(i):
        return c.b.constant(False, (c.b.shape(xs)[1], c.shape(2)[2]))
    return c.b.take_one(c.x(i), 1 if c.attr("layout", 0) else 0, direction)


def _activations(c: OpCall, per_direction: int, must_keep_zero: Sequence[int]) -> None:
    names = [name.lower() for name in c.attr("activations") or []]
    for i, name in enumerate(names):
        if i % per_direction in must_keep_zero and name not in KEEP_ZERO:
            raise NotLoweredError(f"{name} as its activation")
    if "affine" in names and any(c.attr("activation_beta") or []):
        raise NotLoweredError("an affine activation")


def _all_directions(c: OpCall, cell: Cell, states: int) -> list[int]:
    """Return Y [steps, directions, batch, hidden], and the final states [directions, batch, hidden]."""
    b = c.b
    xs = b.permute(c.x(), (1, 0, 2)) if c.attr("layout", 0) else c.x()
    steps, batch = b.shape(xs)[:2]
    lengths = _Lengths(c, steps, batch)
    outputs, finals = [], [[] for _ in range(states)]  # type: ignore[var-annotated]
    for direction, backward in enumerate(DIRECTIONS[c.attr("direction", "forward").lower()]):
        turned = backward and lengths.given
        done = cell(b, lengths.turned(xs) if turned else xs, direction, backward and not turned)
        all_h = lengths.cut(done[-1])
        final = done[:-1]
        if lengths.given:
            final[0] = lengths.last(done[-1])
        outputs.append(lengths.turned(all_h) if turned else all_h)
        for gathered, state in zip(finals, final, strict=True):
            gathered.append(state)
    results = [b.stack(outputs, 1), *(b.stack(parts, 0) for parts in finals)]
    if c.attr("layout", 0):
        results = [b.permute(results[0], (2, 0, 1, 3)), *(b.permute(r, (1, 0, 2)) for r in results[1:])]
    return results


class _Lengths:
    """The lengths of the sequences in a batch: absent, known or live."""

    def __init__(self, c: OpCall, steps: int, batch: int) -> None:
        self.b, self.steps, self.batch = c.b, steps, batch
        self.live = c.x(4) if c.is_live(4) else None
        known = c.array(4).astype(np.int64) if c.constant(4) is not None else None
        self.known = None if known is None or (known == steps).all() else known
        self.given = self.live is not None or self.known is not None

    def turned(self, xs: int) -> int:
        """Reverse each sequence from its own end. With live lengths, any step may come at any time."""
        if self.known is None:
            return self._join(self.b.mix(xs, (0,)))
        t, n = np.arange(self.steps)[:, None], self.known[None, :]
        return self._pick(xs, np.where(t < n, n - 1 - t, t))

    def cut(self, ys: int) -> int:
        if self.known is not None:
            within = np.arange(self.steps)[:, None] < self.known[None, :]
            return self.b.times(ys, self.b.constant(within[:, :, None]))
        return self._join(ys)

    def last(self, ys: int) -> int:
        if self.known is None:
            return self.b.reshape(self._join(self.b.reduce(ys, (0,), keepdim=True)), self.b.shape(ys)[1:])
        places = np.maximum(self.known - 1, 0)[None, :]
        return self.b.reshape(self._pick(ys, places), self.b.shape(ys)[1:])

    def _join(self, xs: int) -> int:
        return xs if self.live is None else self.b.join(xs, self.b.reshape(self.live, (1, self.batch, 1)))

    def _pick(self, xs: int, steps: Array) -> int:
        width = self.b.shape(xs)[2]
        rows = steps * self.batch + np.arange(self.batch)[None, :]
        return self.b.gather(xs, rows[:, :, None] * width + np.arange(width))


def _biases(c: OpCall, direction: int, gates: Sequence[int]) -> tuple[Bools | None, Bools | None]:
    """Return the biases of the input product and of the recurrent product."""
    if not c.has(3):
        return None, None
    both = nonzero(c.array(3))[direction].reshape(2, -1)[:, _rows(gates, c.shape(2)[2])]
    return both[0], both[1]


def _either(a: Bools | None, b: Bools | None) -> Bools | None:
    return None if a is None or b is None else a | b


@operator("RNN", primitives="Scan", indexed=True, roles=ROLES)
def rnn(c: OpCall) -> Result:
    _activations(c, 1, (0,))

    def cell(b: Builder, xs: int, d: int, backward: bool) -> list[int]:
        w, r = (_weight(c, i, d, (0,)) for i in (1, 2))
        bias = _either(*_biases(c, d, (0,)))
        return layers.rnn(b, xs, _state(c, 5, d, xs), w_x=w, w_h=r, bias=bias, reverse=backward)

    return _all_directions(c, cell, 1)


@operator("LSTM", primitives="Scan", indexed=True, roles=ROLES)
def lstm(c: OpCall) -> Result:
    _activations(c, 3, (1, 2))
    if c.attr("input_forget", 0):
        raise NotLoweredError("input and forget gate are coupled")

    def cell(b: Builder, xs: int, d: int, backward: bool) -> list[int]:
        w, r = (_weight(c, i, d, IFGO) for i in (1, 2))
        h, cell_state = (_state(c, i, d, xs) for i in (5, 6))
        peep = None
        if c.has(7):
            peep = dict(zip("iof", np.split(nonzero(c.array(7))[d], 3), strict=True))
        bias = _either(*_biases(c, d, IFGO))
        return layers.lstm(b, xs, h, cell_state, w_x=w, w_h=r, bias=bias, reverse=backward, peepholes=peep)

    return _all_directions(c, cell, 2)


@operator("GRU", primitives="Scan", indexed=True, roles=ROLES)
def gru(c: OpCall) -> Result:
    _activations(c, 2, (1,))

    def cell(b: Builder, xs: int, d: int, backward: bool) -> list[int]:
        r: layers.AddWeight | tuple[layers.AddWeight, layers.AddWeight] = _weight(c, 2, d, RZN)
        if not c.attr("linear_before_reset", 0):
            r = _weight(c, 2, d, RZN[:2]), _weight(c, 2, d, RZN[2:])
        w, start = _weight(c, 1, d, RZN), _state(c, 5, d, xs)
        bias_x, bias_h = _biases(c, d, RZN)
        return layers.gru(b, xs, start, w_x=w, w_h=r, bias_x=bias_x, bias_h=bias_h, reverse=backward)

    return _all_directions(c, cell, 1)

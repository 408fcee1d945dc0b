"""Steps of a random graph that add a whole layer: norms, attention, recurrent cells, loops, embeddings, residual
blocks. Each takes a maker and returns new values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from effsparse_cli.graph import layers, windows
from effsparse_cli.graph.builder import Builder
from tests.witnesses.maker import Maker


def norm(m: Maker) -> list[int]:
    x = m.value(1)
    if x is None:
        return []
    shape = m.b.shape(x)
    scale, shift = m.maybe_nonzero(shape[-1:]), m.maybe_nonzero(shape[-1:])
    match m.number(0, 3):
        case 0:
            return [layers.layer_norm(m.b, x, (-1,), scale, shift)]
        case 1:
            return [layers.rms_norm(m.b, x, (-1,), scale)]
        case 2 if len(shape) >= 2:
            groups = m.choose([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
            channels = shape[1:2]
            return [layers.group_norm(m.b, x, groups, m.maybe_nonzero(channels), m.maybe_nonzero(channels))]
        case _:
            return [layers.affine(m.b, x, scale=scale, shift=shift, axis=-1)]


def attention(m: Maker) -> list[int]:
    length, other, width, heads = m.number(1, 3), m.number(1, 3), m.number(1, 3), m.number(0, 2)
    front = (heads,) if heads else ()
    x, y = m.fitted(m.any_value(), (*front, length, 2)), m.fitted(m.any_value(), (*front, other, 2))
    q, k, v = (m.b.contract(z, m.weight((width, 2))) for z in (x, y, y))
    allowed = m.nonzero((length, other)) if m.flip() else None
    added = [m.fitted(m.any_value(), (*front, length, other))] if m.rarely() else []
    out = layers.attention(m.b, q, k, v, allowed, added)
    return [m.b.contract(out, m.weight((2, width))) if m.flip() else out]


def recurrent(m: Maker) -> list[int]:
    steps, batch, size, hidden = m.number(1, 3), m.number(1, 2), m.number(1, 3), m.number(1, 2)
    xs = m.fitted(m.any_value(), (steps, batch, size))
    reverse = m.flip()

    def state(width: int) -> int:
        return m.fitted(m.any_value(), (batch, width)) if m.flip() else m.b.constant(m.nonzero((batch, width)))

    def placed(*shape: int) -> Callable[[Builder], int]:
        layer = m.layer(shape, "recurrent")
        return lambda b: b.weight(layer)

    match m.number(0, 3):
        case 0:
            bias = m.maybe_nonzero((hidden,))
            return layers.rnn(
                m.b, xs, state(hidden), w_x=placed(hidden, size), w_h=placed(hidden, hidden), bias=bias, reverse=reverse
            )
        case 1:
            narrow = m.number(1, 2) if m.flip() else None
            peep = {g: m.nonzero((hidden,)) for g in "ifo"} if m.flip() else None
            return layers.lstm(
                m.b, xs, state(narrow or hidden), state(hidden), w_x=placed(4 * hidden, size),
                w_h=placed(4 * hidden, narrow or hidden), bias=m.maybe_nonzero((4 * hidden,)), reverse=reverse,
                project=placed(narrow, hidden) if narrow else None, peepholes=peep,
            )  # fmt: skip
        case kind:
            bias_x, bias_h = m.maybe_nonzero((3 * hidden,)), m.maybe_nonzero((3 * hidden,))
            split = (placed(2 * hidden, hidden), placed(hidden, hidden))
            w_h = placed(3 * hidden, hidden) if kind == 2 else split
            start, w_x = state(hidden), placed(3 * hidden, size)
            return layers.gru(m.b, xs, start, w_x=w_x, w_h=w_h, bias_x=bias_x, bias_h=bias_h, reverse=reverse)


def scan(m: Maker, grow: Callable[[Maker, int], None]) -> list[int]:
    """Add a loop with a random body made by `grow`."""
    if m.depth > 1:
        return []
    states = [m.any_value() for _ in range(m.number(1, 2))]
    steps = m.choose((None, 1, 2, 3))
    scanned = []
    if steps is not None and m.flip():
        scanned = [m.fitted(m.any_value(), (steps, m.number(1, 3))) for _ in range(m.number(1, 2))]
    invariants = [m.any_value()] if m.flip() else []
    stacks = 0 if steps is None else m.number(0, 1)

    def body(b: Builder, values: Sequence[int]) -> list[int]:
        inner = m.inside(b, values)
        grow(inner, m.number(1, 3))
        new = [inner.fitted(inner.any_value(), b.shape(value)) for value in values[: len(states)]]
        return [*new, *(inner.any_value() for _ in range(stacks))]

    return m.b.scan(body, states, scanned, invariants, steps, m.flip())


def embedding(m: Maker) -> list[int]:
    length, vocabulary, width = m.number(1, 3), m.number(1, 4), m.number(1, 3)
    index = m.b.source("index", (length, 1))
    weight = m.b.weight(m.layer((width, vocabulary), "embedding"))
    return [m.b.contract(m.b.expand(index, (length, vocabulary)), weight)]


def block(m: Maker) -> list[int]:
    """Add a residual or concatenated convolution block on a small map, sometimes with a pooling and a head."""
    channels, size = m.number(1, 3), m.number(1, 4)
    x = m.fitted(m.any_value(), (1, channels, size, size))
    axis = windows.sliding(size, 3, before=1, after=1)
    y = m.b.contract(x, m.weight((channels, channels, 3, 3)), (axis, axis))
    y = layers.affine(m.b, y, scale=m.maybe_nonzero((channels,)), shift=m.maybe_nonzero((channels,)), axis=1)
    out = m.b.join(x, y) if m.flip() else m.b.concat([x, y], 1)
    if m.flip():
        pooled = windows.sliding(size, min(2, size), stride=2)
        out = m.b.window(out, (None, None, pooled, pooled))
    if m.flip():
        flat = m.b.reshape(out, (1, -1))
        out = m.b.contract(flat, m.weight((m.number(1, 3), m.b.shape(flat)[-1])))
    return [out]


def shuffle(m: Maker) -> list[int]:
    """Rearrange the positions of one value at random, with some zeros."""
    x = m.any_value()
    n = int(np.prod(m.b.shape(x)))
    index = np.random.default_rng(m.number(0, 2**16)).integers(-1, n, size=(m.number(1, 3), m.number(1, 4)))
    return [m.b.gather(x, index)]

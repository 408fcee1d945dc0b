"""Hypothesis strategy for short, wide graphs: more channels or pixels than fit one machine word, few kept weights, and
partly live maps."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from effsparse_cli.graph import layers, windows
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Taps
from effsparse_cli.graph.verify import verify
from tests.witnesses.maker import Maker

TERMS = 4_000
"""Most kept weights times positions of one contraction, so that the oracle takes tens of milliseconds."""


def start(m: Maker) -> int:
    """Draw an input: many channels on a tiny map, or few on a large one, in one to three dimensions."""
    match m.number(0, 3):
        case 0:
            return m.b.source("features", (m.number(1, 2), m.number(60, 140)))
        case 1:
            return m.b.source("channels", (1, m.number(60, 140), m.number(1, 3), m.number(1, 2)))
        case 2:
            return m.b.source("line", (1, m.number(1, 4), m.number(60, 140)))
        case _:
            sizes = [m.number(7, 10), m.number(7, 10)] if m.flip() else [m.number(3, 5) for _ in range(3)]
            return m.b.source("map", (m.number(1, 2), m.number(1, 3), *sizes))


def geometry(m: Maker, size: int) -> Taps:
    kernel, stride, dilation = m.number(1, 3), m.number(1, 3), m.number(1, 3)
    before, after = m.number(0, 3), m.number(0, 3)
    if m.rarely() and size < 20:
        out = max((size - 1) * stride - before + dilation * (kernel - 1) + 1, 1)
        return windows.transposed(out, size, kernel, stride=stride, dilation=dilation, before=before)
    made = windows.sliding(size, kernel, stride=stride, dilation=dilation, before=before, after=after)
    return made if made.shape[1] else windows.sliding(size, 1)


def contract(m: Maker, x: int) -> int:
    shape = m.b.shape(x)
    channels, sizes = shape[1], shape[2:]
    tables = [geometry(m, n) for n in sizes]
    groups = m.choose([g for g in (1, 1, 2, 5, channels) if channels % g == 0])
    n = groups * (m.number(1, 3) if m.flip() or groups > 5 else m.number(20, 90) // groups)
    taps = [t.shape[0] for t in tables]
    places = math.prod(t.shape[1] for t in tables) * shape[0]
    weights = n * channels // groups * math.prod(taps)
    density = min(m.choose((0.01, 0.03, 0.1, 0.3, 1.0)), TERMS / (weights * places))
    layer = m.layer((n, channels // groups, *taps), "conv", density)
    return m.b.contract(x, m.b.weight(layer), tables, groups)


def partial(m: Maker, x: int) -> int:
    """Set some positions or channels to zero or to a constant."""
    shape = m.b.shape(x)
    part = tuple(1 if m.flip() else n for n in shape)
    density = m.choose((0.05, 0.5, 0.95))
    constant = m.b.constant(m.bools(part, density))
    return m.b.times(x, constant) if m.number(0, 2) else m.b.join(x, constant)


def pool(m: Maker, x: int) -> int:
    taps = [windows.adaptive(n, m.number(1, min(n, 6))) if m.flip() else geometry(m, n) for n in m.b.shape(x)[2:]]
    return m.b.window(x, [None, None, *taps])


def flatten(m: Maker, x: int) -> int:
    return m.b.reshape(x, (m.b.shape(x)[0], -1))


def around(m: Maker, x: int) -> int:
    """Add a branch parallel to x: residual, concatenated or gated."""
    y = x
    for _ in range(m.number(1, 2)):
        y = contract(m, y) if m.flip() else partial(m, y)
    if m.b.shape(y) != m.b.shape(x):
        return y
    match m.number(0, 2):
        case 0:
            return m.b.join(x, y)
        case 1:
            return m.b.times(x, y)
        case _:
            return m.b.concat([x, y], 1)


def move(m: Maker, x: int) -> int:
    shape = m.b.shape(x)
    axis = m.number(1, len(shape) - 1)
    index = np.random.default_rng(m.number(0, 2**16)).integers(-1, shape[axis], size=m.number(1, shape[axis] + 3))
    return m.b.take(x, axis, index) if m.flip() else m.b.pad(x, axis, m.number(0, 2), m.number(0, 2), m.flip())


def norm(m: Maker, x: int) -> int:
    channels = m.b.shape(x)[1:2]
    if m.rarely():
        return layers.group_norm(m.b, x, m.choose([g for g in (1, 2, channels[0]) if channels[0] % g == 0]), None, None)
    return layers.affine(m.b, x, scale=m.maybe_nonzero(channels), shift=m.maybe_nonzero(channels), axis=1)


STEPS = (contract, contract, contract, partial, pool, flatten, around, move, norm)


@st.composite
def wide_graphs(draw: st.DrawFn) -> Graph:
    m = Maker(draw)
    x = start(m)
    if m.flip():
        x = partial(m, x)
    for _ in range(m.number(2, 5)):
        step = m.choose(STEPS)
        made = step(m, x)
        x = made if 0 < math.prod(m.b.shape(made)) <= 800 else x
    graph = m.b.finish([contract(m, x)])
    verify(graph)
    return graph

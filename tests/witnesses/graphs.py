"""Hypothesis strategy for small random graphs of all primitives: a few inputs, some steps, one to three outputs,
weights pruned at a density drawn per graph."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import strategies as st

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.verify import verify
from tests.witnesses import layer_steps, primitive_steps
from tests.witnesses.maker import DENSITIES, LARGEST, Maker

SINGLE: tuple[Callable[[Maker], int | None], ...] = (
    primitive_steps.linear,
    *[primitive_steps.convolution] * 5,
    primitive_steps.product,
    primitive_steps.gate,
    primitive_steps.scale_or_shift,
    primitive_steps.select,
    primitive_steps.join,
    primitive_steps.mix,
    primitive_steps.window,
    primitive_steps.window,
    primitive_steps.permute,
    primitive_steps.reshape,
    primitive_steps.expand,
    primitive_steps.take,
    primitive_steps.concat,
    primitive_steps.opaque,
    primitive_steps.constant,
)
WHOLE: tuple[Callable[[Maker], list[int]], ...] = (
    layer_steps.norm,
    layer_steps.attention,
    layer_steps.recurrent,
    *[layer_steps.block] * 2,
    layer_steps.shuffle,
    lambda m: layer_steps.scan(m, grow),
    lambda m: layer_steps.scan(m, grow),
)


def grow(m: Maker, steps: int) -> None:
    """Take random steps and add their results to the pool, often through a probe, unless they are too large."""
    for _ in range(steps):
        if m.number(0, 2) == 0:
            m.pool.append(primitive_steps.patterned(m, m.any_value()))
        if m.number(0, 3) == 0:
            made = m.choose(WHOLE)(m)
        else:
            one = m.choose(SINGLE)(m)
            made = [] if one is None else [one]
        fit = [x for x in made if 0 < math.prod(m.b.shape(x)) <= LARGEST]
        m.pool += [primitive_steps.probe(m, x) if m.flip() else x for x in fit]


@st.composite
def graphs(draw: st.DrawFn, most_steps: int = 8) -> Graph:
    m = Maker(draw)
    m.density = m.choose(DENSITIES)
    for i in range(m.number(1, 2)):
        shape = [m.number(1, 4) for _ in range(m.number(1, 4))]
        x = m.b.source(f"input {i}", shape if math.prod(shape) <= LARGEST else shape[:2])
        m.pool.append(primitive_steps.probe(m, primitive_steps.patterned(m, x)) if m.number(0, 2) else x)
    if m.rarely():
        m.pool += layer_steps.embedding(m)
    m.pool.append(primitive_steps.linear(m) or m.pool[0])
    grow(m, m.number(1, most_steps))
    graph = m.b.finish(choose_outputs(m))
    verify(graph)
    return graph


def choose_outputs(m: Maker) -> list[int]:
    """Often choose every value that no node reads, so that little of the graph is dead for lack of a reader."""
    if m.flip():
        read = {i for node in m.b.nodes for i in node.inputs}
        return [x for x in dict.fromkeys(m.pool) if x not in read] or [m.pool[-1]]
    return list(dict.fromkeys([m.pool[-1], *(m.any_value() for _ in range(m.number(0, 2)))]))

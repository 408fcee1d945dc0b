"""Generate small pruned networks: chains of linear layers and convolutions, with optional shortcuts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.windows import sliding


def layer(name: str, kept: NDArray[np.bool_], values: NDArray[Any] | None = None) -> Layer:
    read = None if values is None else partial(np.copy, values)
    return Layer(name, "conv1d" if kept.ndim == 3 else "linear", kept.shape, partial(np.copy, kept), values=read)


@st.composite
def chains(draw: st.DrawFn, shortcuts: bool = False, densities: Sequence[float] = (0.0, 0.15, 0.3, 0.5)) -> Graph:
    """Networks of convolutions and pointwise layers on [1, channels, length]. Without shortcuts, every path runs
    through every layer. Weights have no values, so any pruned connection can be revived."""
    b = Builder()
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    density = draw(st.sampled_from(densities))
    length = draw(st.integers(1, 4))
    values = [b.source("x", (1, draw(st.integers(1, 2)), length))]
    for i in range(draw(st.integers(1, 4))):
        x = draw(st.sampled_from(values)) if shortcuts else values[-1]
        channels, size = b.shape(x)[1:]
        taps = draw(st.sampled_from([1, 1, 2, 3]))
        table = sliding(
            size,
            taps,
            stride=draw(st.integers(1, 2)),
            dilation=1,
            before=draw(st.integers(0, 1)),
            after=draw(st.integers(0, 1)),
        )
        if not table.shape[1]:
            table = sliding(size, 1)
        apart = shortcuts and draw(st.booleans())  # depthwise: one connection alone rarely joins what is alive
        rows, groups = (channels, channels) if apart else (draw(st.integers(1, 3 if shortcuts else 2)), 1)
        kept = rng.random((rows, channels // groups, len(table))) < density
        y = b.contract(x, b.weight(layer(f"conv{i}", kept)), [table], groups)
        others = [value for value in values if b.shape(value) == b.shape(y)]
        if shortcuts and others and draw(st.booleans()):
            y = b.join(y, draw(st.sampled_from(others)))
        values.append(y)
    if shortcuts and draw(st.booleans()):
        return b.finish([values[-1], draw(st.sampled_from(values))])
    return b.finish([values[-1]])


def with_values(graph: Graph, seed: int) -> Graph:
    """The same networks with a value for every weight."""
    rng = np.random.default_rng(seed)
    drawn = {name: rng.normal(size=found.shape) for name, found in graph.layers.items()}
    layers = {name: layer(name, found.kept(), drawn[name]) for name, found in graph.layers.items()}
    return Graph(graph.nodes, graph.outputs, layers)

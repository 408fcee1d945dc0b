"""The bottleneck of a connection is the threshold at which it becomes inactive: exactly where channels are whole,
an upper bound where single positions differ."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.bottleneck.scores import Scores, find_bottlenecks
from tests.witnesses.graphs import graphs


def scored(graph: Graph, seed: int) -> dict[str, Scores]:
    """Few distinct scores, so that ties occur; what is pruned already has none."""
    draw = np.random.default_rng(seed)
    return {
        name: np.where(layer.kept(), draw.integers(1, 6, layer.shape), -np.inf) for name, layer in graph.layers.items()
    }


def at_threshold(graph: Graph, scores: dict[str, Scores], threshold: float) -> Graph:
    return graph.with_masks({name: array >= threshold for name, array in scores.items()})


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs(), st.integers(0, 9))
def test_no_connection_is_active_above_its_bottleneck(graph: Graph, seed: int) -> None:
    scores = scored(graph, seed)
    bottlenecks = find_bottlenecks(graph, scores)
    for threshold in range(1, 6):
        found = find_paths(at_threshold(graph, scores, threshold))
        for name, edges in found.items():
            assert not (edges.mask("active") & (bottlenecks[name] < threshold)).any()


@st.composite
def fully_connected(draw: st.DrawFn) -> Graph:
    """Layers with shortcuts and gates between them: every value is a row of neurons."""
    b, width = Builder(), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    values = [b.source("x", (1, width))]
    for i in range(draw(st.integers(1, 6))):
        kept = rng.random((width, width)) < 0.8
        layer = Layer(f"fc{i}", "linear", kept.shape, partial(np.copy, kept))
        y = b.contract(values[-1], b.weight(layer))
        if draw(st.booleans()):
            y = b.join(y, b.constant(rng.random((1, width)) < 0.3))
        if draw(st.booleans()):
            other = draw(st.sampled_from(values))
            y = b.join(y, other) if draw(st.booleans()) else b.times(y, other)
        values.append(y)
    return b.finish([values[-1]])


@settings(deadline=None, max_examples=200, derandomize=True)
@given(fully_connected(), st.integers(0, 9))
def test_exact_on_whole_channels(graph: Graph, seed: int) -> None:
    scores = scored(graph, seed)
    bottlenecks = find_bottlenecks(graph, scores)
    for threshold in range(1, 7):
        found = find_paths(at_threshold(graph, scores, threshold))
        for name, edges in found.items():
            np.testing.assert_array_equal(edges.mask("active"), bottlenecks[name] >= threshold)

"""From a graph to what is known of it: one pass over its paths, then counts per layer."""

from __future__ import annotations

import math

from effsparse_cli.analyze.cuts import find_cut, find_narrowest
from effsparse_cli.analyze.patterns import find_pattern
from effsparse_cli.analyze.results import Analysis, Counts, LayerResult
from effsparse_cli.errors import NothingToMeasureError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Opaque, Scan, Source
from effsparse_cli.paths import edges_of, sweep
from effsparse_cli.paths.edges import KINDS, Edges


def analyze_graph(
    graph: Graph,
    *,
    engine: str = "bits",
    device: str = "cpu",
    count_embeddings: bool = False,
    masks: bool = False,
    patterns: bool = False,
) -> Analysis:
    """Runs one pass and counts. `masks` keeps one boolean array per weight, active or not; `patterns` looks for N:M and
    block patterns, which can take as long as the rest."""
    if not graph.layers:
        raise NothingToMeasureError("the graph has no connections: no operator in it multiplies by a stored weight")
    done = sweep(graph, engine, device)
    edges = edges_of(graph, done)
    results = {name: _result(found, patterns) for name, found in edges.items()}
    apart = {name for name, layer in graph.layers.items() if layer.embedding and not count_embeddings}
    if len(apart) == len(results):
        raise NothingToMeasureError(
            "the graph's only weights are embedding tables, which do not count: --count-embeddings counts them"
        )
    active = {name: result.counts.active for name, result in results.items()}
    disconnected = not any(done.live(output) for output in graph.outputs)
    return Analysis(
        layers=tuple(result for name, result in results.items() if name not in apart),
        apart=tuple(result for name, result in results.items() if name in apart),
        input_shapes={node.op.name: node.shape for node in graph.nodes if isinstance(node.op, Source)},
        disconnected=disconnected,
        cut=find_cut(graph, done.live) if disconnected else None,
        narrowest=None if disconnected else find_narrowest(graph, done.live, active),
        unknown=unknown_operators(graph),
        notes=graph.notes + _notes(graph),
        engine=engine,
        active_masks={name: found.mask("active") for name, found in edges.items()} if masks else {},
    )


def unknown_operators(graph: Graph) -> tuple[str, ...]:
    """The operators taken as "everything depends on everything", bodies of scans included, in order of use."""
    labels: dict[str, None] = {}
    for node in graph.nodes:
        if isinstance(node.op, Opaque):
            labels[node.op.label] = None
        elif isinstance(node.op, Scan):
            labels.update(dict.fromkeys(unknown_operators(node.op.body)))
    return tuple(labels)


def _result(found: Edges, patterns: bool) -> LayerResult:
    counts = Counts(math.prod(found.layer.shape), *map(found.counts.__getitem__, KINDS))
    neurons, dead = found.neurons
    pattern = find_pattern(found) if patterns else ""
    return LayerResult(found.layer.name, found.layer.op, found.layer.shape, counts, neurons, dead, pattern)


def _notes(graph: Graph) -> tuple[str, ...]:
    if not graph.unused:
        return ()
    return (f"not used by any operator, so not counted: {', '.join(graph.unused)}",)

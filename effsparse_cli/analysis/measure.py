"""Analyze a graph: one pass over its paths, then counts per layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from effsparse_cli.analysis.costs import count_multiply_adds
from effsparse_cli.analysis.cuts import find_cut, find_narrowest
from effsparse_cli.analysis.network import find_network
from effsparse_cli.analysis.patterns import find_pattern
from effsparse_cli.analysis.pictures import draw_layers
from effsparse_cli.analysis.results import Analysis, Counts, LayerResult, Layers
from effsparse_cli.errors import NothingToMeasureError
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.paths import collect_edges, run_pass
from effsparse_cli.paths.edges import Edges
from effsparse_cli.paths.mixed_weights import fills_zeros


def analyze_graph(
    graph: Graph,
    *,
    engine: str = "bits",
    device: str = "cpu",
    count_embeddings: bool = False,
    masks: bool = False,
    patterns: bool = False,
    costs: bool = False,
    pictures: bool = False,
) -> Analysis:
    """Run one pass and count. `masks` keeps one boolean array per weight, True for active; `patterns` names N:M and
    block patterns; `costs` counts multiply-adds and bytes; `pictures` adds the network and a picture of each layer."""
    if not graph.layers:
        raise NothingToMeasureError("the graph has no connections: no operator in it multiplies by a stored weight")
    done = run_pass(graph, engine, device, watch=pictures)
    edges = collect_edges(graph, done)
    results = {name: _result(found, find_pattern(found) if patterns else "") for name, found in edges.items()}
    if costs:
        work = count_multiply_adds(graph, done.uses)
        results = {name: _with_costs(result, work[name], edges[name].layer) for name, result in results.items()}
    apart = {name for name, layer in graph.layers.items() if layer.embedding and not count_embeddings}
    if len(apart) == len(results):
        raise NothingToMeasureError(
            "the graph's only weights are embedding tables, which do not count: --count-embeddings counts them"
        )
    active = {name: result.counts.active for name, result in results.items()}
    alive = done.alive
    refilled = tuple(dict.fromkeys(m.sources[0] for m in graph.mixed_weights.values() if fills_zeros(graph, m)))
    disconnected = not any(alive[output] for output in graph.outputs)
    return Analysis(
        layers=Layers(result for name, result in results.items() if name not in apart),
        apart=tuple(result for name, result in results.items() if name in apart),
        input_shapes=graph.input_shapes,
        disconnected=disconnected,
        cut=find_cut(graph, alive) if disconnected else None,
        narrowest=None if disconnected else find_narrowest(graph, alive, active),
        unknown=graph.unknown_operators,
        refilled=refilled,
        notes=(*graph.notes, *_notes(graph, refilled)),
        engine=engine,
        active_masks={name: found.mask("active") for name, found in edges.items()} if masks else {},
        network=find_network(graph) if pictures else None,
        pictures=draw_layers(graph, edges, done if engine == "bits" else None) if pictures else {},
    )


def _result(found: Edges, pattern: str) -> LayerResult:
    layer, counts = found.layer, found.counts
    return LayerResult(
        name=layer.name,
        op=layer.op,
        shape=layer.shape,
        counts=Counts(
            connections=math.prod(layer.shape),
            kept=counts.kept,
            active=counts.active,
            no_input=counts.no_input,
            no_output=counts.no_output,
            both=counts.both,
            padding=counts.padding,
            bias_carriers=counts.carrier,
        ),
        neurons=found.neurons,
        dead_neurons=found.dead_neurons,
        pattern=pattern,
    )


def _with_costs(result: LayerResult, multiply_adds: int | None, layer: Layer) -> LayerResult:
    counts, size = result.counts, layer.itemsize
    return result._replace(
        multiply_adds=multiply_adds,
        bytes=counts.connections * size if size else None,
        active_bytes=counts.active * size if size else None,
    )


def _notes(graph: Graph, refilled: Sequence[str]) -> Iterator[str]:
    if graph.unused:
        yield f"not used by any operator, so not counted: {', '.join(graph.unused)}"
    mixed = dict.fromkeys(name for mixed_weight in graph.mixed_weights.values() for name in mixed_weight.sources)
    if mixed:
        yield (
            f"weights mixed before use in {_some(list(mixed))}: such a connection is active if any weight "
            "computed from it is"
        )
    if refilled:
        yield f"a zero stored in {_some(refilled)} prunes nothing: the weights computed from it are not zero"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

"""Paths from inputs to outputs: one pass, and the algebras that it runs in."""

from __future__ import annotations

from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths.boolean import BitWeights, scan_weights
from effsparse_cli.paths.boolean_arrays import BOOLEAN
from effsparse_cli.paths.edges import Edges, Use
from effsparse_cli.paths.sweep import Sweep

ENGINES = ("bits", "saturated", "pathnorm")


def sweep(graph: Graph, engine: str = "bits", device: str = "cpu") -> Sweep[Any, Use]:
    """The pass itself, for callers that want values as well as connections."""
    if engine == "bits":
        scanned = scan_weights(graph.weight_shapes, graph.layers)
        return Sweep(BOOLEAN, BitWeights(graph.layers, scanned), graph)
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}: choose one of {', '.join(ENGINES)}")
    from effsparse_cli.paths.real import RealArrays
    from effsparse_cli.paths.real_weights import RealWeights

    arrays = RealArrays(device, saturate=engine == "saturated")
    return Sweep(arrays, RealWeights(lambda name: graph.layers[name].kept(), arrays), graph)


def find_paths(graph: Graph, engine: str = "bits", device: str = "cpu") -> dict[str, Edges]:
    """Which connections of each layer are active, and why the others are not."""
    return edges_of(graph, sweep(graph, engine, device))


def edges_of(graph: Graph, done: Sweep[Any, Use]) -> dict[str, Edges]:
    edges = {name: Edges(layer) for name, layer in graph.layers.items()}
    for weight, use in done.uses.items():
        edges[weight.layer].uses.append(use)
    return edges

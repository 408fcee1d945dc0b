"""Paths from inputs to outputs: one pass, and the algebras that it runs in."""

from __future__ import annotations

from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths.boolean_arrays import BOOLEAN
from effsparse_cli.paths.edges import Edges, Use
from effsparse_cli.paths.mixing import bit_weights, mixed_uses, operands_of
from effsparse_cli.paths.sweep import Sweep

ENGINES = ("bits", "saturated", "pathnorm")


def sweep(graph: Graph, engine: str = "bits", device: str = "cpu") -> Sweep[Any, Use]:
    """Run the pass."""
    if engine == "bits":
        return Sweep(BOOLEAN, bit_weights(graph), graph)
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}: choose one of {', '.join(ENGINES)}")
    from effsparse_cli.paths.real import RealArrays
    from effsparse_cli.paths.real_weights import RealWeights

    operands = operands_of(graph)
    arrays = RealArrays(device, saturate=engine == "saturated")
    return Sweep(arrays, RealWeights(lambda name: operands[name].kept(), arrays), graph)


def find_paths(graph: Graph, engine: str = "bits", device: str = "cpu") -> dict[str, Edges]:
    """Return for each layer which connections are active, and why the others are not."""
    return edges_of(graph, sweep(graph, engine, device))


def edges_of(graph: Graph, done: Sweep[Any, Use]) -> dict[str, Edges]:
    """Collect what a pass found, by layer."""
    edges = {name: Edges(layer) for name, layer in graph.layers.items()}
    for weight, use in done.uses.items():
        if weight.layer in edges:
            edges[weight.layer].uses.append(use)
    for name, uses in mixed_uses(graph).items():
        edges[name].uses += uses
    return edges

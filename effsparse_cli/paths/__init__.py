"""Paths from inputs to outputs: one pass, and the algebras that it runs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.boolean.arrays import BOOLEAN
from effsparse_cli.paths.boolean.weights import SplitWeights
from effsparse_cli.paths.edges import Edges, WeightUse
from effsparse_cli.paths.mixed_weights import current_operands, find_mixed_uses, pack_weights
from effsparse_cli.paths.passes import Pass

ENGINES = ("bits", "saturated", "pathnorm")


def run_pass(graph: Graph, engine: str = "bits", device: str = "cpu", *, watch: bool = False) -> Pass[Any, WeightUse]:
    """Run the pass."""
    if engine == "bits":
        return Pass(BOOLEAN, pack_weights(graph), graph, watch)
    if engine not in ENGINES:
        raise UsageError(f"unknown engine {engine!r}: choose one of {', '.join(ENGINES)}")
    from effsparse_cli.paths.real.arrays import RealArrays
    from effsparse_cli.paths.real.weights import RealWeights

    operands = current_operands(graph)
    arrays = RealArrays(device, saturate=engine == "saturated")
    return Pass(arrays, RealWeights(lambda name: operands[name].kept(), arrays), graph)


def find_paths(graph: Graph, engine: str = "bits", device: str = "cpu") -> dict[str, Edges]:
    """Return for each layer which connections are active, and why the others are not."""
    return collect_edges(graph, run_pass(graph, engine, device))


def collect_edges(graph: Graph, done: Pass[Any, WeightUse]) -> dict[str, Edges]:
    """Collect what a pass found, by layer."""
    edges = {name: Edges(layer) for name, layer in graph.layers.items()}
    for weight, use in done.uses.items():
        if weight.layer in edges:
            edges[weight.layer].uses.append(use)
    for name, uses in find_mixed_uses(graph).items():
        edges[name].uses += uses
    return edges


def find_joining(graph: Graph, candidates: Mapping[str, Bools]) -> dict[str, Bools]:
    """Return which candidates, which the graph does not keep, join a live position to a relevant one.

    Each would be active if it were added, alone or with others. A weight that several steps use can be active without
    being found here, if its own use makes the source of another live.
    """
    other = graph.with_masks(candidates)
    weights = SplitWeights(pack_weights(graph), pack_weights(other))
    found = collect_edges(other, Pass(BOOLEAN, weights, graph))
    return {name: found[name].mask("active") for name in candidates}

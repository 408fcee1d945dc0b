"""Paths from inputs to outputs: one pass, and the algebras that it runs in."""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from effsparse_cli import kernel
from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Weight
from effsparse_cli.paths.boolean import BitWeights
from effsparse_cli.paths.boolean_arrays import BOOLEAN
from effsparse_cli.paths.edges import Counted, Edges, Use
from effsparse_cli.paths.mixing import mixed_uses, operands_of
from effsparse_cli.paths.packing import read_all
from effsparse_cli.paths.sweep import Sweep

if kernel.COMPILED:
    from effsparse_cli.paths.recording import program_of
    from effsparse_cli.paths.replay import Replay

ENGINES = ("bits", "saturated", "pathnorm")


class Pass(Protocol):
    """What a pass has found: each use of a weight; the counts of layers, where they are there already; and which nodes
    the input reaches, a byte for each, one or zero."""

    @property
    def uses(self) -> dict[Weight, Use]: ...

    @property
    def counted(self) -> dict[str, Counted]: ...

    @property
    def alive(self) -> bytes: ...


def sweep(graph: Graph, engine: str = "bits", device: str = "cpu") -> Pass:
    """The pass itself."""
    if engine == "bits":
        return _on_bits(graph)
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}: choose one of {', '.join(ENGINES)}")
    from effsparse_cli.paths.real import RealArrays
    from effsparse_cli.paths.real_weights import RealWeights

    operands = operands_of(graph)
    arrays = RealArrays(device, saturate=engine == "saturated")
    return Sweep(arrays, RealWeights(lambda name: operands[name].kept(), arrays), graph)


def find_paths(graph: Graph, engine: str = "bits", device: str = "cpu") -> dict[str, Edges]:
    """Which connections of each layer are active, and why the others are not."""
    return edges_of(graph, sweep(graph, engine, device))


def _on_bits(graph: Graph) -> Pass:
    if kernel.COMPILED:
        program = program_of(graph)
        if program is not None:
            return Replay(program, graph)
    operands = operands_of(graph)
    return Sweep(BOOLEAN, BitWeights(operands, read_all(graph.weight_shapes, operands)), graph)


def edges_of(graph: Graph, done: Pass, besides: Container[str] = ()) -> dict[str, Edges]:
    """Which connections of each layer do what, in all layers but those that are named."""
    edges = {name: Edges(layer) for name, layer in graph.layers.items() if name not in besides}
    for weight, use in done.uses.items():
        if weight.layer in edges:
            edges[weight.layer].uses.append(use)
    for name, uses in mixed_uses(graph).items():
        if name in edges:
            edges[name].uses += uses
    return edges

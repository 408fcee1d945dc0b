"""Sizes of open dimensions: where a model leaves input sizes open, they double until the counts stop changing."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.errors import EffsparseError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Concat, Constant, Contract, Scan, Shape, Take, Window

if TYPE_CHECKING:
    from effsparse_cli.formats import ModelFile

MOST = 1 << 23
"""Maximum number of elements of an input to try."""

Judge = Callable[[Graph], Hashable]


@dataclass(frozen=True)
class Settled:
    """`graph` has inputs of `shapes`, and `note` says why."""

    graph: Graph
    shapes: Mapping[str, Shape]
    note: str


def counts_of(graph: Graph) -> Hashable:
    """Return what has to stop changing: the counts of every layer."""
    found = analyze_graph(graph, count_embeddings=True)
    return tuple((layer.name, layer.counts) for layer in found.layers)


def settle(graph: Graph, read: Callable[[Mapping[str, Shape]], Graph], judge: Judge | None = None) -> Settled | None:
    """Read the model at larger sizes until two doublings in a row leave the result of `judge`, by default the counts,
    unchanged. Return None if the given graph will do."""
    start = graph.open_dimensions
    if start is None or not depends_on_sizes(graph) or (judge is None and _is_whole(graph)):
        return None
    judge = judge or counts_of
    same, found, factor, limit = [(1, graph)], (judge(graph), _filled(graph)), 1, ""
    while len(same) < 3 and not limit:
        factor *= 2
        try:
            shapes = start.shapes(factor)
            if max(map(math.prod, shapes.values())) > MOST:
                limit = "no larger size{} was tried"
                break
            larger = read(shapes)
            accepted = larger.unknown_operators == graph.unknown_operators
        except EffsparseError:
            accepted = False
        # An operator that can no longer be lowered fails at that size, such as an index beyond a table of positions.
        if not accepted:
            limit = "the model accepts no larger size{}"
            break
        before, found = found, (judge(larger), _filled(larger))
        same = [*same, (factor, larger)] if found == before else [(factor, larger)]
    factor, graph = same[-1] if limit else same[0]
    note, names = f"input shape {_text(graph.input_shapes)}: ", _names(start.sizes)
    if factor == 1:
        note += limit.format(f" of {names}") or f"larger sizes of {names} give the same counts"
    else:
        how = "until the counts stopped changing" if len(same) > 1 else "while the counts kept changing"
        end = f"; {limit.format('')}" if limit else ""
        note += f"{names} doubled from {_sizes(start.sizes)} {how}{end}"
    return Settled(graph.with_notes(before=[note]), start.shapes(factor), note)


def _filled(graph: Graph) -> Hashable:
    """Return for each axis of each window whether it ever lies inside its input completely. While that changes, sizes
    are too small, even if the counts of a very sparse model do not show it."""
    tables = [node.op.windows for node in graph.nodes if isinstance(node.op, Contract)]
    return tuple(bool((table >= 0).all(axis=0).any()) for axes in tables for table in axes)


def _is_whole(graph: Graph) -> bool:
    """Whether every kept connection is active, so that larger sizes add nothing."""
    return not any(layer.counts.inactive for layer in analyze_graph(graph, count_embeddings=True).layers)


def _names(sizes: Mapping[str, int]) -> str:
    *others, last = sizes
    return f"the open dimensions {', '.join(others)} and {last}" if others else f"the open dimension {last}"


def _sizes(sizes: Mapping[str, int]) -> str:
    *others, last = dict.fromkeys(map(str, sizes.values()))
    return f"{', '.join(others)} and {last}" if others else last


def _text(shapes: Mapping[str, Shape]) -> str:
    texts = {name: "x".join(map(str, shape)) for name, shape in shapes.items()}
    return next(iter(texts.values())) if len(texts) == 1 else ", ".join(f"{n} {text}" for n, text in texts.items())


def depends_on_sizes(graph: Graph) -> bool:
    """Whether counts can depend on the input sizes: only if positions differ by their neighbours, in windows, padding
    or steps of a loop. In a transformer they do not."""
    return any(_sees_neighbours(graph, i) for i in range(len(graph.nodes)))


def _sees_neighbours(graph: Graph, i: int) -> bool:
    match graph.nodes[i].op:
        case Contract(windows):
            return any(len(table) > 1 or np.any(table < 0) for table in windows)
        case Take(_, index):
            return bool(np.any(index < 0))
        case Concat():
            parts = [graph.nodes[k].op for k in graph.nodes[i].inputs]
            return any(isinstance(op, Constant) and not op.nonzero.all() for op in parts)
        case Window() | Scan():
            return True
        case _:
            return False


def open_graph(file: ModelFile, judge: Judge | None = None) -> tuple[Graph, ModelFile]:
    """Return the graph, and the file at the sizes that were settled on.

    `judge` returns what must not depend on the sizes; by default the counts of the layers.
    """
    return settle_sizes(file.graph(), file, judge)


def settle_sizes(graph: Graph, file: ModelFile, judge: Judge | None = None) -> tuple[Graph, ModelFile]:
    """Return the same for a graph that was read already."""
    found = settle(graph, lambda shapes: file.with_options(input_shapes=shapes).graph(), judge)
    if found is None:
        return graph, file
    return found.graph, file.with_options(input_shapes=found.shapes)


def settle_file(file: ModelFile) -> tuple[ModelFile, tuple[str, ...]]:
    """Return the file at the sizes to use, and notes that say so, for commands that run the model themselves."""
    if not file.has_open_dimensions():
        return file, ()
    graph = file.graph()
    larger, file = settle_sizes(graph, file)
    return file, larger.notes[:1] if larger is not graph else ()

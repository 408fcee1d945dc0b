"""Two graphs in, a comparison out: both are measured, layers are matched, connections compared place by place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis, LayerResult
from effsparse_cli.comparison.match import match_layers
from effsparse_cli.comparison.results import Comparison, Moves, Pair
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.layouts import Layout, find_layouts


@dataclass(frozen=True, eq=False)
class Side:
    """One model: its graph, what was measured, and in which order its weights' elements are used."""

    graph: Graph
    analysis: Analysis
    layouts: dict[str, Layout]
    counted: dict[str, LayerResult]

    def masks(self, name: str) -> tuple[Bools, Bools]:
        """Kept and active, in the order in which operators use them."""
        layout = self.layouts[name]
        return layout.read(self.graph.layers[name].kept()), layout.read(self.analysis.active_masks[name])


def compare(before_name: str, before: Graph, after_name: str, after: Graph, count_embeddings: bool) -> Comparison:
    old, new = _side(before, count_embeddings), _side(after, count_embeddings)
    matched = match_layers(*({name: side.layouts[name].shape for name in side.counted} for side in (old, new)))
    taken = set(matched.values())
    return Comparison(
        before_name,
        after_name,
        old.analysis,
        new.analysis,
        tuple(Pair(old.counted[a], new.counted[b], _moves(old, a, new, b)) for a, b in matched.items()),
        tuple(layer for name, layer in old.counted.items() if name not in matched),
        tuple(layer for name, layer in new.counted.items() if name not in taken),
    )


def _side(graph: Graph, count_embeddings: bool) -> Side:
    analysis = analyze_graph(graph, count_embeddings=count_embeddings, masks=True)
    return Side(graph, analysis, find_layouts(graph), {layer.name: layer for layer in analysis.layers})


def _moves(old: Side, before: str, new: Side, after: str) -> Moves | None:
    if old.layouts[before].shape != new.layouts[after].shape:
        return None
    (kept_before, active_before), (kept_after, active_after) = old.masks(before), new.masks(after)
    both = kept_before & kept_after
    return Moves(
        gained=int(np.count_nonzero(kept_after & ~kept_before)),
        lost=int(np.count_nonzero(kept_before & ~kept_after)),
        newly_dead=int(np.count_nonzero(both & active_before & ~active_after)),
        revived=int(np.count_nonzero(both & active_after & ~active_before)),
    )

"""`repair --reconnect`: masks in which every collapsed layer (one without an active connection) is on a path again,
with as few connections added as that takes.

Nothing is removed, and kept connections cost nothing: a shortest path through the layer, at the level of single
positions, shows what is missing. The best-scored connection on shortest paths is added, and the search repeated until
the layer is active. Guarantees:

1. One collapsed layer, or a disconnected network in which every path runs through every layer (such as VGG): the number
   of added connections is minimal.
2. Several collapsed layers in a network with shortcuts: each gets the fewest possible after those before it; in total
   they may be more than necessary.
3. If a path has to open a gate (a product of two activations), or uses a weight more than once (recurrent or shared),
   the number is an upper bound.

Layers that no allowed connection puts on a path are named in `left`. The plan's target and quota are ignored.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.mending.candidates import Candidates, check_path, find_candidates
from effsparse_cli.mending.result import DenseWeights, MendResult
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.cost.cheapest import find_cheapest
from effsparse_cli.pruning.plan import PrunePlan

Masks = dict[str, Bools]


def reconnect(graph: Graph, plan: PrunePlan, dense: DenseWeights | None = None) -> MendResult:
    candidates = find_candidates(graph, plan, dense)
    masks: Masks = dict(candidates.kept)
    collapsed = find_collapsed(graph, candidates)
    if collapsed:
        check_path(candidates)
        waiting = collapsed - find_collapsed(graph.with_masks(candidates.all_revived()), candidates)
        while waiting:
            before = len(waiting)
            for name in [name for name in candidates.scope.counted if name in waiting]:
                masks, collapsed = _restore(graph, candidates, masks, collapsed, name)
            waiting &= collapsed
            # A path may need a gate that opens only once the layers after it are restored.
            if len(waiting) == before:
                break
    return _finish(graph, candidates, masks)


def find_collapsed(graph: Graph, candidates: Candidates) -> set[str]:
    edges = find_paths(graph)
    return {name for name in candidates.scope.counted if not edges[name].count("active")}


def _restore(
    graph: Graph, candidates: Candidates, masks: Masks, collapsed: set[str], layer: str
) -> tuple[Masks, set[str]]:
    """Add connections one by one until the layer is active or nothing helps.

    Also returns the layers still collapsed, because finding them takes a pass.
    """
    limit = 2 * len(graph.weight_shapes) + 1
    max_cost = 1
    while layer in collapsed:
        allowed = {name: candidates.allowed[name] & ~mask for name, mask in masks.items()}
        cheapest = find_cheapest(graph.with_masks(masks), allowed, layer, max_cost)
        if cheapest is not None:
            masks = _add_best(candidates, masks, cheapest.masks)
            collapsed = find_collapsed(graph.with_masks(masks), candidates)
            max_cost = max(cheapest.cost - 1, 1)
        elif max_cost < limit:
            max_cost = min(2 * max_cost, limit)
        else:
            break
    return masks, collapsed


def _add_best(candidates: Candidates, masks: Masks, choices: Masks) -> Masks:
    """Add the connection with the best score; ties go by canonical position."""
    layouts = candidates.scope.layouts
    best: tuple[float, str, int] | None = None
    for name, mask in choices.items():
        positions = np.flatnonzero(layouts[name].read(mask))
        scores = layouts[name].read(candidates.scores[name]).reshape(-1)[positions]
        if len(positions) and (best is None or scores.max() > best[0]):
            best = float(scores.max()), name, int(positions[np.argmax(scores)])
    assert best is not None
    _, name, position = best
    grown = layouts[name].read(masks[name]).copy()
    grown.flat[position] = True
    return {**masks, name: layouts[name].write(grown)}


def _finish(graph: Graph, candidates: Candidates, masks: Masks) -> MendResult:
    """Remove added connections that are inactive, and count."""
    scope = candidates.scope
    edges = find_paths(graph.with_masks(masks))
    useful = {name: candidates.kept[name] | (mask & edges[name].mask("active")) for name, mask in masks.items()}
    after = analyze_graph(graph.with_masks(useful), count_embeddings=candidates.plan.count_embeddings).totals
    if after.active < sum(edges[name].count("active") for name in scope.counted):
        # An inactive connection can carry the constant that keeps a gate open.
        useful = masks
    collapsed = find_collapsed(graph.with_masks(useful), candidates)
    result = MendResult(
        masks=useful,
        revived={name: mask & ~candidates.kept[name] for name, mask in useful.items()},
        values=candidates.values,
        connections=scope.connections,
        kept=after.kept,
        active=after.active,
        left=tuple(name for name in scope.counted if name in collapsed),
    )
    return replace(result, notes=candidates.notes if result.added else ())

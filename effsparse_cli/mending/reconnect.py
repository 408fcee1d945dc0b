"""`--reconnect`: a graph, a plan and dense weights where there are any enter; masks leave in which every collapsed
layer (one without an active connection) lies on a path again, with as few connections added as that takes.

    reconnect(graph, plan, dense=None) -> Revived

Nothing is removed, and kept connections cost nothing: a shortest path through the layer, at the level of single
positions, says what is missing. Of what lies on shortest paths the best-scored connection is added, and the question
asked again, until the layer is active. What is guaranteed:

1. One collapsed layer, or a disconnected network in which every path runs through every layer (a plain one, such as
   VGG): no smaller number of connections would do.
2. Several collapsed layers in a network with shortcuts: each gets the fewest after what was added for those before it;
   all together they may be more than the fewest.
3. Where the path has to open a gate (a product of two activations), or uses a weight more than once (recurrent or
   shared), the number is an upper bound.

A layer that stays collapsed (nothing that may be added puts it on a path) is named in `left`. The plan's target and
quota play no part.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.mending.candidates import Candidates, check_path, find_candidates
from effsparse_cli.mending.revived import Dense, Revived
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.cheapest import find_cheapest
from effsparse_cli.pruning.plan import Plan

Masks = dict[str, Bools]


def reconnect(graph: Graph, plan: Plan, dense: Dense | None = None) -> Revived:
    found = find_candidates(graph, plan, dense)
    masks: Masks = dict(found.kept)
    dead = collapsed(graph, found)
    if dead:
        check_path(found)
        hopeless = collapsed(graph.with_masks(found.all_back()), found)
        waiting = dead - hopeless
        while waiting:
            before = len(waiting)
            for name in [name for name in found.parts.counted if name in waiting]:
                masks, dead = _restore(graph, found, masks, dead, name)
            waiting &= dead
            # A path that waits for a gate may find it open after the layers behind the gate were restored.
            if len(waiting) == before:
                break
    return _settled(graph, found, masks)


def collapsed(graph: Graph, found: Candidates) -> set[str]:
    edges = find_paths(graph)
    return {name for name in found.parts.counted if not edges[name].count("active")}


def _restore(graph: Graph, found: Candidates, masks: Masks, dead: set[str], layer: str) -> tuple[Masks, set[str]]:
    """Adds one connection after another until the layer is active, or nothing more helps; what is `dead` with the
    masks is told along, since a look at all weights is needed to see it."""
    limit = 2 * len(graph.weight_shapes) + 1
    most = 1
    while layer in dead:
        offered = {name: found.allowed[name] & ~mask for name, mask in masks.items()}
        cheapest = find_cheapest(graph.with_masks(masks), offered, layer, most)
        if cheapest is not None:
            masks = _with_best(found, masks, cheapest.masks)
            dead = collapsed(graph.with_masks(masks), found)
            most = max(cheapest.cost - 1, 1)
        elif most < limit:
            most = min(2 * most, limit)
        else:
            break
    return masks, dead


def _with_best(found: Candidates, masks: Masks, among: Masks) -> Masks:
    """The canonical position decides between equals."""
    best: tuple[float, str, int] | None = None
    for name, mask in among.items():
        places = np.flatnonzero(found.layouts[name].read(mask))
        scores = found.layouts[name].read(found.scores[name]).reshape(-1)[places]
        if len(places) and (best is None or scores.max() > best[0]):
            best = float(scores.max()), name, int(places[np.argmax(scores)])
    assert best is not None
    _, name, place = best
    grown = found.layouts[name].read(masks[name]).copy()
    grown.flat[place] = True
    return {**masks, name: found.layouts[name].write(grown)}


def _settled(graph: Graph, found: Candidates, masks: Masks) -> Revived:
    """Takes back what was added for nothing, and counts."""
    edges = find_paths(graph.with_masks(masks))
    useful = {name: found.kept[name] | (mask & edges[name].mask("active")) for name, mask in masks.items()}
    after = analyze_graph(graph.with_masks(useful), count_embeddings=found.plan.count_embeddings).totals
    if after.active < sum(edges[name].count("active") for name in found.parts.counted):
        # What is inactive can carry the constant that holds a gate open.
        useful = masks
    revived = {name: mask & ~found.kept[name] for name, mask in useful.items()}
    dead = collapsed(graph.with_masks(useful), found)
    left = tuple(name for name in found.parts.counted if name in dead)
    done = Revived(useful, revived, found.values, found.parts.connections, after.kept, after.active, left=left)
    return replace(done, notes=found.notes if done.added else ())

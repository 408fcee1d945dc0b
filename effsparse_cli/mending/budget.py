"""`--budget-neutral`: a graph, a plan and dense weights where there are any enter; masks leave that keep as many
connections as before, all of them active.

    keep_budget(graph, plan, dense=None) -> Revived

Pruned connections come back as in revive, until as many are active as were kept, and what is inactive goes. Where the
last step of the ranking brings several to life at once and the number is missed, single connections make it exact: to
a network all of whose connections are active, one that joins a live position to a relevant one adds exactly itself.
Where there are too few of those, single ones go from the network with the step taken. Where neither meets the number,
a note says so, and the budget is not exceeded unless nothing within it is connected. The plan's target plays no part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.mending.candidates import Candidates, check_path, compose, find_candidates
from effsparse_cli.mending.revive import without_idle
from effsparse_cli.mending.revived import Dense, Revived, revived_of
from effsparse_cli.paths.joining import find_joining
from effsparse_cli.pruning.plan import Plan, Pruned
from effsparse_cli.pruning.ranking import Ranking
from effsparse_cli.pruning.select import keep_best
from effsparse_cli.pruning.target import count_active, prune_to_active

Masks = Mapping[str, Bools]
MOST_TRIALS = 1000
"""How many single connections are tried, one pass each, before the number is called out of reach."""


def keep_budget(graph: Graph, plan: Plan, dense: Dense | None = None) -> Revived:
    found = find_candidates(graph, replace(plan, keep_inactive=False), dense)
    kept = {name: graph.layers[name].kept() for name in found.parts.counted}
    want = sum(int(np.count_nonzero(mask)) for mask in kept.values())
    found = replace(found, plan=replace(found.plan, target=1 - Fraction(want, found.parts.connections)))
    check_path(found)
    ranking = compose(found)
    reached = prune_to_active(graph, ranking.scores, found.parts.counted, want, plan.device)
    masks = {name: ranking.scores[name] >= reached.threshold for name in found.parts.pruned}
    done = without_idle(graph, found, ranking, masks)
    if done.active > want:
        fewer = {name: ranking.scores[name] > reached.threshold for name in found.parts.pruned}
        done = _exactly(graph, found, ranking, done, without_idle(graph, found, ranking, fewer), want)
    mended = revived_of(graph, done, found.values)
    notes = found.notes if mended.added or done.active < want else ()
    missed = () if done.active == want else (_missed(done.active, want),)
    return replace(mended, notes=notes + missed)


def _exactly(graph: Graph, found: Candidates, ranking: Ranking, more: Pruned, fewer: Pruned, want: int) -> Pruned:
    """Fills up the smaller network, or thins out the larger one."""
    filled = without_idle(graph, found, ranking, _fill(graph, found, ranking, fewer, want - fewer.active))
    if filled.active == want:
        return filled
    thinned = without_idle(graph, found, ranking, _thin(graph, found, more, more.active - want))
    return thinned if thinned.active == want or not filled.active else filled


def _fill(graph: Graph, found: Candidates, ranking: Ranking, start: Pruned, missing: int) -> Masks:
    masks = dict(start.masks)
    while missing:
        asked = {name: back & ~masks[name] for name, back in found.all_back().items()}
        joining = find_joining(graph.with_masks(masks), asked)
        scores = {name: np.where(mask, ranking.scores[name], -np.inf) for name, mask in joining.items()}
        best = keep_best({name: found.layouts[name].read(array) for name, array in scores.items()}, missing)
        chosen = {name: found.layouts[name].write(mask) for name, mask in best.items()}
        number = sum(int(np.count_nonzero(mask)) for mask in chosen.values())
        if not number:
            break
        masks = {name: mask | chosen[name] for name, mask in masks.items()}
        missing -= number
    return masks


def _thin(graph: Graph, found: Candidates, start: Pruned, surplus: int) -> Masks:
    """Takes out, one by one, connections without which all others are still active: revived ones before those that
    were kept, the lowest score first."""
    masks, active = {name: mask.copy() for name, mask in start.masks.items()}, start.active
    for name, place in _lowest_first(found, masks):
        if active == start.active - surplus:
            break
        masks[name].flat[place] = False
        if count_active(graph.with_masks(masks), found.parts.counted) == active - 1:
            active -= 1
        else:
            masks[name].flat[place] = True
    return masks


def _lowest_first(found: Candidates, masks: Masks) -> Iterator[tuple[str, int]]:
    names = list(masks)
    where = [np.flatnonzero(masks[name]) for name in names]
    layer = np.repeat(np.arange(len(names)), [len(places) for places in where])
    kept = np.concatenate([found.kept[name].reshape(-1)[at] for name, at in zip(names, where, strict=True)])
    scores = np.concatenate([found.scores[name].reshape(-1)[at] for name, at in zip(names, where, strict=True)])
    places = np.concatenate(where)
    for i in np.lexsort((scores, kept))[:MOST_TRIALS]:
        yield names[layer[i]], int(places[i])


def _missed(active: int, want: int) -> str:
    if active > want:
        return f"{want:,} connections were kept, and no connected network has so few: {active:,} are kept and active"
    return f"{want:,} connections were kept, and no more than {active:,} could be made active"

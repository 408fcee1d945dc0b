"""`repair --budget-neutral`: masks that keep the number of connections, all of them active.

Pruned connections are revived as for a target, until as many are active as were kept, and inactive ones are removed. If
the last step of the ranking activates several connections at once and overshoots, single connections make the number
exact: in a network whose connections are all active, a connection from a live to a relevant position adds exactly
itself. If there are too few of those, single connections are removed from the larger network instead. If neither meets
the number, a note says so, and the budget is exceeded only if no network within it is connected. The plan's target is
ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from effsparse_cli.formatting import plural
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.mending.candidates import Candidates, check_path, find_candidates, rank_candidates
from effsparse_cli.mending.result import DenseWeights, MendResult, to_mend_result
from effsparse_cli.mending.target import finish_revived
from effsparse_cli.paths import find_joining
from effsparse_cli.pruning.plan import PrunePlan, PruneResult
from effsparse_cli.pruning.ranking import Ranking
from effsparse_cli.pruning.target import count_active, find_threshold
from effsparse_cli.pruning.topk import keep_best

Masks = Mapping[str, Bools]
MAX_TRIALS = 1000
"""Maximum number of single connections to try to remove, one pass each."""


def keep_budget(graph: Graph, plan: PrunePlan, dense: DenseWeights | None = None) -> MendResult:
    candidates = find_candidates(graph, replace(plan, keep_inactive=False), dense)
    scope = candidates.scope
    budget = sum(int(np.count_nonzero(graph.layers[name].kept())) for name in scope.counted)
    target = 1 - Fraction(budget, scope.connections)
    candidates = replace(candidates, plan=replace(candidates.plan, target=target))
    check_path(candidates)
    ranking = rank_candidates(candidates)
    threshold = find_threshold(graph, ranking.scores, scope.counted, budget, plan.device)
    masks = {name: ranking.scores[name] >= threshold.value for name in scope.pruned}
    result = finish_revived(graph, candidates, masks)
    if result.active > budget:
        masks = {name: ranking.scores[name] > threshold.value for name in scope.pruned}
        fewer = finish_revived(graph, candidates, masks)
        result = _meet_exactly(graph, candidates, ranking, (fewer, result), budget)
    mended = to_mend_result(graph, result, candidates.values)
    notes = candidates.notes if mended.added or result.active < budget else ()
    missed = () if result.active == budget else (_describe_miss(result.active, budget),)
    return replace(mended, notes=notes + missed)


def _meet_exactly(
    graph: Graph, candidates: Candidates, ranking: Ranking, bounds: tuple[PruneResult, PruneResult], budget: int
) -> PruneResult:
    """Add connections to the smaller of two networks, or remove some from the larger one."""
    fewer, more = bounds
    masks = _add_connections(graph, candidates, ranking, fewer, budget - fewer.active)
    filled = finish_revived(graph, candidates, masks)
    if filled.active == budget:
        return filled
    masks = _remove_connections(graph, candidates, more, more.active - budget)
    thinned = finish_revived(graph, candidates, masks)
    return thinned if thinned.active == budget or not filled.active else filled


def _add_connections(graph: Graph, candidates: Candidates, ranking: Ranking, start: PruneResult, missing: int) -> Masks:
    masks, layouts = dict(start.masks), candidates.scope.layouts
    while missing:
        pruned = {name: revived & ~masks[name] for name, revived in candidates.all_revived().items()}
        joining = find_joining(graph.with_masks(masks), pruned)
        scores = {name: np.where(mask, ranking.scores[name], -np.inf) for name, mask in joining.items()}
        best = keep_best({name: layouts[name].read(array) for name, array in scores.items()}, missing)
        added = {name: layouts[name].write(mask) for name, mask in best.items()}
        number = sum(int(np.count_nonzero(mask)) for mask in added.values())
        if not number:
            break
        masks = {name: mask | added[name] for name, mask in masks.items()}
        missing -= number
    return masks


def _remove_connections(graph: Graph, candidates: Candidates, start: PruneResult, surplus: int) -> Masks:
    """Remove connections one by one if all others stay active: revived ones first, then by score, lowest first."""
    masks, active = {name: mask.copy() for name, mask in start.masks.items()}, start.active
    for name, position in _lowest_first(candidates, masks):
        if active == start.active - surplus:
            break
        masks[name].flat[position] = False
        if count_active(graph.with_masks(masks), candidates.scope.counted) == active - 1:
            active -= 1
        else:
            masks[name].flat[position] = True
    return masks


def _lowest_first(candidates: Candidates, masks: Masks) -> Iterator[tuple[str, int]]:
    names = list(masks)
    where = [np.flatnonzero(masks[name]) for name in names]
    layer = np.repeat(np.arange(len(names)), [len(positions) for positions in where])
    kept = np.concatenate([candidates.kept[name].reshape(-1)[at] for name, at in zip(names, where, strict=True)])
    scores = np.concatenate([candidates.scores[name].reshape(-1)[at] for name, at in zip(names, where, strict=True)])
    positions = np.concatenate(where)
    for i in np.lexsort((scores, kept))[:MAX_TRIALS]:
        yield names[layer[i]], int(positions[i])


def _describe_miss(active: int, budget: int) -> str:
    kept = f"{plural(budget, 'connection')} {'was' if budget == 1 else 'were'} kept"
    if active > budget:
        return f"{kept}, but the smallest connected network found keeps {active:,}"
    return f"{kept}, but only {active:,} can be active"

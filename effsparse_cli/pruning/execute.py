"""Pruning: a graph and a plan in, masks out that reach the plan's target, or come as close as the ranking allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.errors import UsageError
from effsparse_cli.formatting import plural
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning import ALGORITHMS
from effsparse_cli.pruning.aerp import run_aerp
from effsparse_cli.pruning.direct import count_kept_outside, prune_to_count
from effsparse_cli.pruning.plan import PrunePlan, PruneResult, connections_left
from effsparse_cli.pruning.ranking import Ranking, ScoredLayers, quota_name, rank_scored, score_scope
from effsparse_cli.pruning.scope import Scope
from effsparse_cli.pruning.shortlist import make_shortlist, search_shortlist
from effsparse_cli.pruning.target import Threshold, count_active, find_threshold, search_threshold

Masks = Mapping[str, Bools]


def prune_graph(graph: Graph, plan: PrunePlan) -> PruneResult:
    """Prune to the effective target, or to the number of kept connections if the plan is `direct`.

    Inactive connections are removed from the masks, unless the plan keeps them or is `direct`.
    """
    if plan.algorithm not in ALGORITHMS:
        raise UsageError(f"unknown algorithm {plan.algorithm!r}: choose one of {', '.join(ALGORITHMS)}")
    scored = score_scope(graph, plan)
    if plan.algorithm == "bottleneck" and not plan.direct:
        result = _prune_by_shortlist(graph, plan, scored)
        if result is not None:
            return result
    ranking = rank_scored(plan, scored)
    if plan.direct:
        return finish(graph, plan, ranking.scope, prune_to_count(plan, ranking))
    if plan.algorithm == "aerp":
        return _prune_by_aerp(graph, plan, ranking)
    return _prune_by_threshold(graph, plan, ranking)


def _prune_by_shortlist(graph: Graph, plan: PrunePlan, scored: ScoredLayers) -> PruneResult | None:
    """Return None if the shortlist does not settle the target."""
    wanted = connections_left(plan.target, scored.scope.connections)
    shortlist = make_shortlist(plan, scored, wanted)
    threshold = None if shortlist is None else search_shortlist(shortlist, wanted)
    if shortlist is None or threshold is None:
        return None
    if threshold.active > wanted and (threshold.next_active == 0 or shortlist.ties(threshold.value)):
        return None
    result = finish(graph, plan, scored.scope, shortlist.masks(threshold.value))
    return replace(result, threshold=threshold.value, passes=threshold.passes)


def _prune_by_threshold(graph: Graph, plan: PrunePlan, ranking: Ranking) -> PruneResult:
    scope = ranking.scope
    wanted = connections_left(plan.target, scope.connections)
    if plan.algorithm == "search":
        threshold = search_threshold(graph, ranking.scores, scope.counted, wanted)
    else:
        threshold = find_threshold(graph, ranking.scores, scope.counted, wanted, plan.device)
    threshold, kept = settle_ties(graph, ranking, threshold, wanted)
    missed = threshold.active > wanted and threshold.next_active == 0
    if missed and plan.allow_disconnected:
        return _disconnect(graph, plan, ranking)
    result = finish(graph, plan, scope, ranking.best(scope.pruned, kept))
    result = replace(result, threshold=threshold.value, passes=threshold.passes)
    return _note_out_of_reach(graph, plan, result, ranking.best(scope.pruned, kept - 1) if missed else None)


def settle_ties(graph: Graph, ranking: Ranking, threshold: Threshold, wanted: int) -> tuple[Threshold, int]:
    """Return how many of the best connections to keep. Of equal scores at the threshold, no more are kept than `wanted`
    active connections need, in the order of their positions."""
    scope, scores = ranking.scope, [ranking.scores[name] for name in ranking.scope.pruned]
    above, kept = (
        sum(int(np.count_nonzero(found)) for found in each)
        for each in ((array > threshold.value for array in scores), (array >= threshold.value for array in scores))
    )
    while threshold.active > wanted and kept - above > 1:
        middle = (above + kept) // 2
        active = count_active(graph.with_masks(ranking.best(scope.pruned, middle)), scope.counted)
        if active >= wanted:
            kept, threshold = middle, replace(threshold, active=active, passes=threshold.passes + 1)
        else:
            above, threshold = middle, replace(threshold, next_active=active, passes=threshold.passes + 1)
    return threshold, kept


def _prune_by_aerp(graph: Graph, plan: PrunePlan, ranking: Ranking) -> PruneResult:
    if plan.method != "random" or ranking.quota is None or plan.pattern is not None:
        raise UsageError("--algorithm aerp requires --method random with a quota and without --pattern")
    scope = ranking.scope
    wanted = connections_left(plan.target, scope.connections)

    def to_masks(kept: list[Bools]) -> Masks:
        return {name: scope.layouts[name].write(mask) for name, mask in zip(scope.pruned, kept, strict=True)}

    def count(kept: list[Bools]) -> int:
        return count_active(graph.with_masks(to_masks(kept)), scope.counted)

    found = run_aerp(ranking.quota, ranking.available, plan.seed, wanted, count)
    missed = found.active > wanted and found.next_active == 0
    if missed and plan.allow_disconnected:
        return _disconnect(graph, plan, ranking)
    result = replace(finish(graph, plan, scope, to_masks(found.kept)), passes=found.passes)
    return _note_out_of_reach(graph, plan, result, to_masks(found.next_step) if missed else None)


def _note_out_of_reach(graph: Graph, plan: PrunePlan, result: PruneResult, next_step: Masks | None) -> PruneResult:
    """Name the layer that `next_step` cuts; it is None unless that step leaves nothing active."""
    if next_step is None:
        return result
    return replace(result, out_of_reach=True, cut=_analyze(graph.with_masks(next_step), plan).cut)


def _disconnect(graph: Graph, plan: PrunePlan, ranking: Ranking) -> PruneResult:
    """Prune to the number of kept connections: a disconnected network has no other measure."""
    scope = ranking.scope
    left = connections_left(plan.target, scope.connections) - count_kept_outside(scope)
    result = finish(graph, replace(plan, direct=True), scope, ranking.best(scope.pruned, max(left, 0)))
    note = (
        "no connected network reaches the target, so connections were pruned until the number of kept ones matches it; "
        "some of those are inactive"
    )
    return replace(result, notes=(*result.notes, note))


def finish(graph: Graph, plan: PrunePlan, scope: Scope, masks: Masks) -> PruneResult:
    """Count what the masks keep, remove what is inactive, and note what is unusual about the result."""
    totals = _analyze(graph.with_masks(masks), plan).totals
    wanted = connections_left(plan.target, scope.connections)
    reached = totals.kept if plan.direct else totals.active
    notes: tuple[str, ...] = ()
    if reached < wanted:
        notes += (
            f"the target leaves {plural(wanted, 'connection')}, but at most {reached:,} can be "
            f"{'kept' if plan.direct else 'active'} in this network with {plan.method} and {quota_name(plan)}: "
            "the result is sparser than the target",
        )
    unsure = [name for name in graph.layers_in_unknown_operators if name in masks]
    if unsure:
        named = ", ".join(unsure[:5]) + (f" and {len(unsure) - 5} more" if len(unsure) > 5 else "")
        notes += (f"weights of {named} are used by unknown operators, for which a zero may not remove the connection",)
    result = PruneResult(
        masks=masks,
        connections=scope.connections,
        wanted=wanted,
        kept=totals.kept,
        active=totals.active,
        direct=plan.direct,
        notes=notes,
    )
    if plan.direct or plan.keep_inactive or not totals.inactive:
        return result
    return _remove_inactive(graph, plan, result)


def _remove_inactive(graph: Graph, plan: PrunePlan, result: PruneResult) -> PruneResult:
    analysis = _analyze(graph.with_masks(result.masks), plan, masks=True)
    masks = {name: analysis.active_masks[name] for name in result.masks}
    after = _analyze(graph.with_masks(masks), plan).totals
    if after.active != result.active:
        # An inactive connection can carry the constant that keeps a gate open.
        note = "inactive connections are kept: some carry a constant that keeps others active"
        return replace(result, notes=(*result.notes, note))
    removed, carriers = result.kept - after.kept, analysis.totals.bias_carriers
    return replace(result, masks=masks, kept=after.kept, removed=removed, removed_carriers=carriers)


def _analyze(graph: Graph, plan: PrunePlan, masks: bool = False) -> Analysis:
    return analyze_graph(graph, count_embeddings=plan.count_embeddings, masks=masks)

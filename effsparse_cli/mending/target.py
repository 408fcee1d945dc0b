"""`repair --target`: masks with the plan's effective sparsity, reached from either side.

Too dense: prune further from the existing masks, exactly as prune does. Too sparse or disconnected: keep everything and
revive pruned connections, best first, until enough are active; a kept connection becomes active with the first revived
one that completes its path. Connections that are still inactive are then removed (previously kept ones stay with
plan.keep_inactive). In both cases the result is the subnetwork closest to the target that does not exceed it: one step
less of the ranking leaves too few active connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.mending.candidates import Candidates, check_path, find_candidates, rank_candidates
from effsparse_cli.mending.result import DenseWeights, MendResult, to_mend_result
from effsparse_cli.paths import find_paths
from effsparse_cli.pruning.execute import finish, prune_graph, settle_ties
from effsparse_cli.pruning.plan import PrunePlan, PruneResult, connections_left
from effsparse_cli.pruning.target import count_active, find_threshold


def mend_to_target(graph: Graph, plan: PrunePlan, dense: DenseWeights | None = None) -> MendResult:
    candidates = find_candidates(graph, plan, dense)
    scope = candidates.scope
    wanted = connections_left(plan.target, scope.connections)
    if count_active(graph, scope.counted) >= wanted:
        pruned = prune_graph(graph, replace(candidates.plan, method=plan.method))
        return to_mend_result(graph, pruned, candidates.values)
    check_path(candidates)
    ranking = rank_candidates(candidates)
    threshold = find_threshold(graph, ranking.scores, scope.counted, wanted, plan.device)
    _, kept = settle_ties(graph, ranking, threshold, wanted)
    masks = ranking.best(scope.pruned, kept)
    result = to_mend_result(graph, finish_revived(graph, candidates, masks), candidates.values)
    return replace(result, notes=candidates.notes + result.notes)


def finish_revived(graph: Graph, candidates: Candidates, masks: Mapping[str, Bools]) -> PruneResult:
    """Remove revived connections that are inactive, then finish as in pruning."""
    counted = candidates.scope.counted
    edges = find_paths(graph.with_masks(masks))
    useful = {name: edges[name].mask("active") | (masks[name] & candidates.kept[name]) for name in masks}
    active = sum(edges[name].count("active") for name in counted)
    if count_active(graph.with_masks(useful), counted) < active:
        # An inactive connection can carry the constant that keeps a gate open.
        useful = dict(masks)
    return finish(graph, candidates.plan, candidates.scope, useful)

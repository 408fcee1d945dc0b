"""`--target`: a graph, a plan and dense weights where there are any enter; masks leave whose effective sparsity is the
plan's target, from whichever side.

    revive(graph, plan, dense=None) -> Revived

Too dense: pruned on from the existing mask, exactly as prune does. Too sparse or disconnected: everything kept stays,
and pruned connections come back, the best first, until as many are active as the target says; a connection that was
kept and dead comes alive with the first revived one that completes its path. What is then still inactive leaves the
masks (with plan.keep_inactive what was kept before stays). In both cases the result is the subnetwork closest to the
target that does not exceed it: one step less of the ranking leaves fewer active than it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.mending.candidates import Candidates, check_path, compose, find_candidates
from effsparse_cli.mending.revived import Dense, Revived, revived_of
from effsparse_cli.paths import find_paths
from effsparse_cli.pruning.execute import prune_graph, settle
from effsparse_cli.pruning.plan import Plan, Pruned, wanted
from effsparse_cli.pruning.ranking import Ranking
from effsparse_cli.pruning.target import count_active, prune_to_active


def revive(graph: Graph, plan: Plan, dense: Dense | None = None) -> Revived:
    found = find_candidates(graph, plan, dense)
    want = wanted(plan.target, found.parts.connections)
    if count_active(graph, found.parts.counted) >= want:
        return revived_of(graph, prune_graph(graph, replace(found.plan, method=plan.method)), found.values)
    check_path(found)
    ranking = compose(found)
    reached = prune_to_active(graph, ranking.scores, found.parts.counted, want, plan.device)
    masks = {name: ranking.scores[name] >= reached.threshold for name in found.parts.pruned}
    done = revived_of(graph, without_idle(graph, found, ranking, masks), found.values)
    return replace(done, notes=found.notes + done.notes)


def without_idle(graph: Graph, found: Candidates, ranking: Ranking, masks: Mapping[str, Bools]) -> Pruned:
    """Counts what the masks give, after taking out what came back and is inactive, and what was kept and is so unless
    that is to stay."""
    edges = find_paths(graph.with_masks(masks))
    useful = {name: edges[name].mask("active") | (masks[name] & found.kept[name]) for name in masks}
    active = sum(edges[name].count("active") for name in found.parts.counted)
    if count_active(graph.with_masks(useful), found.parts.counted) < active:
        # What is inactive can carry the constant that holds a gate open.
        useful = dict(masks)
    return settle(graph, found.plan, ranking, useful)

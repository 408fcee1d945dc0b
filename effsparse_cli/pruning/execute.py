"""Pruning: a graph and a plan enter, masks leave that meet the plan's target exactly, or come as near as any do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.aerp import aerp
from effsparse_cli.pruning.count import count_left_out, keep_count
from effsparse_cli.pruning.plan import Gradients, Plan, Pruned, parse_pattern, parse_target, wanted
from effsparse_cli.pruning.ranking import Ranking, quota_name, rank
from effsparse_cli.pruning.search import search
from effsparse_cli.pruning.target import count_active, prune_to_active

__all__ = ["ALGORITHMS", "Gradients", "Plan", "Pruned", "parse_pattern", "parse_target", "prune_graph"]

ALGORITHMS = ("bottleneck", "search", "aerp")
Masks = Mapping[str, Bools]


def prune_graph(graph: Graph, plan: Plan) -> Pruned:
    """To the effective target, or with `direct` to the count. Inactive connections then leave the masks, unless
    they are to be kept or a count was what was asked for."""
    if plan.algorithm not in ALGORITHMS:
        raise UsageError(f"there is no algorithm {plan.algorithm!r}: choose one of {', '.join(ALGORITHMS)}")
    ranking = rank(graph, plan)
    if plan.direct:
        return settle(graph, plan, ranking, keep_count(graph, plan, ranking))
    if plan.algorithm == "aerp":
        return _by_aerp(graph, plan, ranking)
    return _by_threshold(graph, plan, ranking)


def _by_threshold(graph: Graph, plan: Plan, ranking: Ranking) -> Pruned:
    parts, want = ranking.parts, wanted(plan.target, ranking.parts.connections)
    if plan.algorithm == "search":
        reached = search(graph, ranking.scores, parts.counted, want)
    else:
        reached = prune_to_active(graph, ranking.scores, parts.counted, want, plan.device)
    missed = reached.active > want and reached.next_active == 0
    if missed and plan.allow_disconnected:
        return _disconnect(graph, plan, ranking)
    done = settle(graph, plan, ranking, {name: ranking.scores[name] >= reached.threshold for name in parts.pruned})
    done = replace(done, threshold=reached.threshold, passes=reached.passes)
    further = {name: ranking.scores[name] > reached.threshold for name in parts.pruned} if missed else None
    return _stopped(graph, plan, done, further)


def _by_aerp(graph: Graph, plan: Plan, ranking: Ranking) -> Pruned:
    if plan.method != "random" or ranking.quota is None or plan.pattern is not None:
        raise UsageError("--algorithm aerp is for --method random within a quota, without a pattern")
    parts, want = ranking.parts, wanted(plan.target, ranking.parts.connections)

    def masks(kept: list[Bools]) -> Masks:
        return {name: ranking.layouts[name].write(mask) for name, mask in zip(parts.pruned, kept, strict=True)}

    def count(kept: list[Bools]) -> int:
        return count_active(graph.with_masks(masks(kept)), parts.counted)

    found = aerp(ranking.quota, ranking.available, plan.seed, want, count)
    missed = found.active > want and found.next_active == 0
    if missed and plan.allow_disconnected:
        return _disconnect(graph, plan, ranking)
    done = replace(settle(graph, plan, ranking, masks(found.kept)), passes=found.passes)
    return _stopped(graph, plan, done, masks(found.further) if missed else None)


def _stopped(graph: Graph, plan: Plan, done: Pruned, further: Masks | None) -> Pruned:
    """`further` is the next step, where that leaves nothing active: says which layer it cuts."""
    if further is None:
        return done
    return replace(done, out_of_reach=True, cut=_analyze(graph.with_masks(further), plan).cut)


def _disconnect(graph: Graph, plan: Plan, ranking: Ranking) -> Pruned:
    """Past the point where a network is connected only the number of kept connections has a meaning."""
    parts = ranking.parts
    left = wanted(plan.target, parts.connections) - count_left_out(graph, parts)
    done = settle(graph, replace(plan, direct=True), ranking, ranking.best(parts.pruned, max(left, 0)))
    note = (
        "no connected network reaches the target, so connections were pruned on until as few are kept as the target "
        "says; inactive ones are among them"
    )
    return replace(done, notes=(*done.notes, note))


def settle(graph: Graph, plan: Plan, ranking: Ranking, masks: Masks) -> Pruned:
    """Counts what the masks give, takes out what is inactive, and says what is odd about the result."""
    removing = not (plan.direct or plan.keep_inactive)
    found = _analyze(graph.with_masks(masks), plan, masks=removing)
    want = wanted(plan.target, ranking.parts.connections)
    got = found.totals.kept if plan.direct else found.totals.active
    notes: tuple[str, ...] = ()
    if got < want:
        notes += (
            f"the target leaves {want:,} connections, but no more than {got:,} can be "
            f"{'kept' if plan.direct else 'active'} in this network with {plan.method} and {quota_name(plan)}: "
            "the result is sparser than asked for",
        )
    unsure = [name for name in graph.layers_in_unknown_operators if name in masks]
    if unsure:
        some = ", ".join(unsure[:5]) + (f" and {len(unsure) - 5} more" if len(unsure) > 5 else "")
        notes += (f"weights of {some} enter unknown operators, which may make something else of a zero",)
    done = Pruned(
        masks, ranking.parts.connections, want, found.totals.kept, found.totals.active, plan.direct, notes=notes
    )
    return _without_inactive(graph, plan, done, found) if removing and found.totals.inactive else done


def _without_inactive(graph: Graph, plan: Plan, done: Pruned, found: Analysis) -> Pruned:
    masks = {name: found.active_masks[name] for name in done.masks}
    after = _analyze(graph.with_masks(masks), plan).totals
    if after.active != done.active:
        # A constant that an inactive connection carries can be what holds a gate open.
        note = "inactive connections stay: some carry a constant without which others would not be active"
        return replace(done, notes=(*done.notes, note))
    notes = done.notes
    if found.totals.bias_carriers:
        notes += (f"{found.totals.bias_carriers:,} of the inactive connections removed carried a constant (a bias)",)
    return replace(done, masks=masks, kept=after.kept, removed=done.kept - after.kept, notes=notes)


def _analyze(graph: Graph, plan: Plan, masks: bool = False) -> Analysis:
    return analyze_graph(graph, count_embeddings=plan.count_embeddings, masks=masks)

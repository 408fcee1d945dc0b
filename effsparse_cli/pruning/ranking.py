"""From a plan to one ranking of all connections: one score per connection, the lowest pruned first.

A score of -inf marks a connection that cannot be kept (already pruned, or excluded by the pattern), +inf one that is
never pruned (layers left out).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning import FROM, GLOBAL, QUOTAS, SCORES
from effsparse_cli.pruning.patterns import find_allowed
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.quotas import LayerSize, Quota
from effsparse_cli.pruning.quotas.ranked import from_scores
from effsparse_cli.pruning.scope import Scope, find_available, find_scope
from effsparse_cli.pruning.scores.inputs import LayerScores, ScoreInput, Scores
from effsparse_cli.pruning.scores.ranks import order_within
from effsparse_cli.pruning.topk import keep_best

MAX_THREADS = 4
"""Each thread that ranks a layer needs memory for the layer's sort keys."""


@dataclass(frozen=True)
class ScoredLayers:
    """The layers to prune with their scores, in the canonical layout. `quota` is None for a global ranking."""

    scope: Scope
    base: LayerScores
    quota: Quota | None


@dataclass(frozen=True)
class Ranking:
    """`scores` for every layer of the graph, in its stored shape. `available` has the connections that can be kept, in
    the canonical layout. `quota` is None for a global ranking."""

    scores: LayerScores
    scope: Scope
    available: Mapping[str, Bools]
    quota: Quota | None

    def best(self, names: Sequence[str], k: int) -> dict[str, Bools]:
        """Return masks of the k best connections of some layers together; ties go by canonical position."""
        layouts = self.scope.layouts
        masks = keep_best({name: layouts[name].read(self.scores[name]) for name in names}, k)
        return {name: layouts[name].write(mask) for name, mask in masks.items()}


def rank(graph: Graph, plan: PrunePlan) -> Ranking:
    return rank_scored(plan, score_scope(graph, plan))


def score_scope(graph: Graph, plan: PrunePlan) -> ScoredLayers:
    """Find the layers to prune, score them, and find their quota."""
    check_names(plan)
    scope = find_scope(graph, plan)
    return ScoredLayers(scope, score_layers(plan, plan.method, scope), find_quota(plan, quota_name(plan), scope))


def rank_scored(plan: PrunePlan, scored: ScoredLayers) -> Ranking:
    scope, base, quota = scored.scope, scored.base, scored.quota
    graph, layouts = scope.graph, scope.layouts
    available = {name: layouts[name].read(find_available(graph, plan, name)) for name in scope.pruned}

    def score(i: int, name: str) -> Scores:
        ranked = base[name] if quota is None else apply_quota(quota, i, base[name])
        allowed = available[name]
        if plan.pattern is not None:
            allowed = allowed & find_allowed(np.where(allowed, base[name], -np.inf), plan.pattern, name, layouts[name])
        return layouts[name].write(ranked if allowed.all() else np.where(allowed, ranked, -np.inf))

    # numpy sorts without holding the interpreter's lock.
    with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
        scores: LayerScores = dict(zip(scope.pruned, pool.map(score, count(), scope.pruned), strict=True))
    return Ranking(add_fixed_layers(graph, scores), scope, available, quota)


def add_fixed_layers(graph: Graph, scores: Mapping[str, Scores]) -> LayerScores:
    """Return scores of one dtype for every layer of the graph; layers without scores keep what they have."""
    dtype = np.result_type(*(array.dtype for array in scores.values()))
    fixed = {name: layer.kept() for name, layer in graph.operands.items() if name not in scores}
    every = {**scores, **{name: np.where(kept, np.inf, -np.inf) for name, kept in fixed.items()}}
    return {name: every[name].astype(dtype, copy=False) for name in graph.operands}


def quota_name(plan: PrunePlan) -> str:
    """Return the plan's quota, or the default of its method."""
    return plan.lsq or SCORES[plan.method].lsq


def check_names(plan: PrunePlan) -> None:
    if plan.method not in SCORES:
        raise UsageError(f"unknown method {plan.method!r}: choose one of {', '.join(SCORES)}")
    lsq = quota_name(plan)
    if lsq not in (GLOBAL, *QUOTAS, *(f"{FROM}{method}" for method in SCORES)):
        raise UsageError(f"unknown quota {lsq!r}: choose one of {', '.join((GLOBAL, *QUOTAS))}, {FROM}METHOD")


def score_layers(plan: PrunePlan, method: str, scope: Scope) -> LayerScores:
    """Return the scores of the pruned layers, in the canonical layout."""
    score, graph = SCORES[method], scope.graph
    if score.needs_data and plan.gradients is None:
        others = ", ".join(name for name, other in SCORES.items() if not other.needs_data)
        raise UsageError(f"{method} needs data. Methods without data: {others}")
    inputs = ScoreInput(
        graph=graph,
        layers=scope.pruned,
        layouts=scope.layouts,
        kept={name: graph.layers[name].kept() for name in scope.pruned} if plan.from_masks else {},
        density=float(1 - plan.target),
        rounds=plan.rounds or score.rounds,
        seed=plan.seed,
        device=plan.device,
        gradients=plan.gradients,
    )
    return score.compute(inputs)


def find_quota(plan: PrunePlan, lsq: str, scope: Scope) -> Quota | None:
    """Return the quota called `lsq` for the pruned layers, None for a global ranking."""
    if lsq == GLOBAL:
        return None
    sizes = [LayerSize(name, scope.layouts[name].shape, scope.graph.layers[name].op) for name in scope.pruned]
    if lsq.startswith(FROM):
        scores = score_layers(plan, lsq.removeprefix(FROM), scope)
        return from_scores(lsq, sizes, [scores[name] for name in scope.pruned])
    return QUOTAS[lsq](sizes, **({"strict": True} if lsq == "erk" and plan.erk_strict else {}))


def apply_quota(quota: Quota, layer: int, base: Scores) -> NDArray[np.float64]:
    """Return the quota's score for the rank of every weight in its layer, u = (rank + 1/2) / n."""
    # Filled first: touching new memory page by page in random order is slow.
    scores, u = np.full(base.size, 0.0), np.arange(base.size, dtype=np.float64)
    u += 0.5
    u /= base.size
    scores[order_within(base)] = quota.score(layer, u)
    return scores.reshape(base.shape)

"""A plan becomes one ranking of all connections: one score per connection, high = kept longest.

-inf is what cannot be kept (pruned already, or against the pattern), +inf what is never pruned (layers left out).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.layouts import Layout, find_layouts
from effsparse_cli.pruning.parts import Parts, find_parts
from effsparse_cli.pruning.patterns import allowed
from effsparse_cli.pruning.plan import Plan
from effsparse_cli.pruning.quotas import QUOTAS, LayerSize, Quota, from_scores
from effsparse_cli.pruning.scores import METHODS, SCORES, ScoreInput, order_within, values_of
from effsparse_cli.pruning.select import keep_best

Scores = NDArray[np.floating[Any]]
FROM = "from:"
GLOBAL = "global"


@dataclass(frozen=True)
class Ranking:
    """`scores` for every layer of the graph, in its stored shape. `quota` is None for a global ranking."""

    scores: dict[str, Scores]
    parts: Parts
    layouts: Mapping[str, Layout]
    available: Mapping[str, Bools]
    quota: Quota | None

    def best(self, names: Sequence[str], k: int) -> dict[str, Bools]:
        """The k best of some layers together; the canonical position decides between equals."""
        chosen = keep_best({name: self.layouts[name].read(self.scores[name]) for name in names}, k)
        return {name: self.layouts[name].write(mask) for name, mask in chosen.items()}


def quota_name(plan: Plan) -> str:
    """What the plan says, or the method's own: scores that compare layers are global, others want a quota."""
    return plan.lsq or METHODS[plan.method].lsq


def rank(graph: Graph, plan: Plan) -> Ranking:
    check_names(plan)
    parts, layouts = find_parts(graph, plan), find_layouts(graph)
    base = score(graph, plan, plan.method, parts, layouts)
    quota = find_quota(graph, plan, quota_name(plan), parts, layouts)
    available = {name: layouts[name].read(_available(graph, plan, name)) for name in parts.pruned}
    scores: dict[str, Scores] = {}
    for i, name in enumerate(parts.pruned):
        ranked = base[name] if quota is None else squeezed(quota, i, base[name])
        stays = available[name]
        if plan.pattern is not None:
            stays = stays & allowed(np.where(stays, base[name], -np.inf), plan.pattern, name, layouts[name])
        scores[name] = layouts[name].write(ranked if stays.all() else np.where(stays, ranked, -np.inf))
    return Ranking(alike(graph, scores), parts, layouts, available, quota)


def alike(graph: Graph, scores: Mapping[str, Scores]) -> dict[str, Scores]:
    """Scores for every layer, of one type. What is left out keeps what it has, and is never pruned."""
    wide = np.result_type(*(array.dtype for array in scores.values()))
    fixed = {name: layer.kept() for name, layer in graph.operands.items() if name not in scores}
    every = {**scores, **{name: np.where(kept, np.inf, -np.inf) for name, kept in fixed.items()}}
    return {name: every[name].astype(wide, copy=False) for name in graph.operands}


def check_names(plan: Plan) -> None:
    if plan.method not in METHODS:
        raise UsageError(f"there is no method {plan.method!r}: choose one of {', '.join(METHODS)}")
    lsq = quota_name(plan)
    known = (GLOBAL, *QUOTAS, *(f"{FROM}{method}" for method in METHODS))
    if lsq not in known:
        raise UsageError(f"there is no quota {lsq!r}: choose one of {', '.join((GLOBAL, *QUOTAS))}, {FROM}METHOD")


def score(graph: Graph, plan: Plan, method: str, parts: Parts, layouts: Mapping[str, Layout]) -> dict[str, Scores]:
    """By layer that takes part, in the canonical layout."""
    if method in SCORES:
        # All layers are scored, also those left out: what a seed draws must not depend on who takes part.
        reads = METHODS[method].reads_values
        values = [
            layouts[name].read(values_of(layer)) if reads else np.broadcast_to(np.False_, layouts[name].shape)
            for name, layer in graph.layers.items()
        ]
        found = dict(zip(graph.layers, SCORES[method](values, plan.seed), strict=True))
        return {name: found[name] for name in parts.pruned}
    kept = {name: graph.layers[name].kept() for name in parts.pruned} if plan.from_masks else {}
    given = ScoreInput(
        graph, parts.pruned, layouts, kept, float(1 - plan.target), plan.rounds, plan.device, plan.gradients
    )
    of_graph = METHODS[method].of_graph
    assert of_graph is not None
    return of_graph(given)


def find_quota(graph: Graph, plan: Plan, lsq: str, parts: Parts, layouts: Mapping[str, Layout]) -> Quota | None:
    if lsq == GLOBAL:
        return None
    sizes = [LayerSize(name, layouts[name].shape, graph.layers[name].op) for name in parts.pruned]
    if lsq.startswith(FROM):
        found = score(graph, plan, lsq.removeprefix(FROM), parts, layouts)
        return from_scores(lsq, sizes, [found[name] for name in parts.pruned])
    return QUOTAS[lsq](sizes, **({"strict": True} if lsq == "erk" and plan.erk_strict else {}))


def _available(graph: Graph, plan: Plan, name: str) -> Bools:
    """In the stored shape. A mask can be lifted, unless it is to hold; a weight that is zero cannot be kept: it
    would be zero in whatever is written."""
    layer = graph.layers[name]
    if plan.from_masks or layer.values is None:
        return layer.kept()
    return np.asarray(values_of(layer) != 0)


def squeezed(quota: Quota, layer: int, base: Scores) -> NDArray[np.float64]:
    """The quota's own score for u = (rank + 1/2) / n of every weight in its layer."""
    scores = np.empty(base.size)
    scores[order_within(base)] = quota.score(layer, (np.arange(base.size) + 0.5) / base.size)
    return scores.reshape(base.shape)

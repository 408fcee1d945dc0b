"""Pruning to a direct sparsity, the old meaning: exactly so many connections stay, however many of them work."""

from __future__ import annotations

import numpy as np

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.parts import Parts
from effsparse_cli.pruning.plan import Plan, wanted
from effsparse_cli.pruning.quotas import counts, densities
from effsparse_cli.pruning.ranking import Ranking


def count_left_out(graph: Graph, parts: Parts) -> int:
    """What the layers hold that count and do not take part."""
    others = [name for name in parts.counted if name not in parts.pruned]
    return sum(int(np.count_nonzero(graph.layers[name].kept())) for name in others)


def keep_count(graph: Graph, plan: Plan, ranking: Ranking) -> dict[str, Bools]:
    """The best of all layers together, or within each layer as many as the quota gives it."""
    parts = ranking.parts
    held = count_left_out(graph, parts)
    left = wanted(plan.target, parts.connections) - held
    if left < 0:
        raise UsageError(
            f"the layers left out hold {held:,} connections, more than the {left + held:,} that the target leaves. "
            "Lower the target, or let more layers take part"
        )
    if ranking.quota is None:
        return ranking.best(parts.pruned, left)
    sparsity = 1 - left / sum(layer.weights for layer in ranking.quota.layers)
    shares = counts(densities(ranking.quota, sparsity), ranking.quota.layers, sparsity)
    return {name: ranking.best([name], int(count))[name] for name, count in zip(parts.pruned, shares, strict=True)}

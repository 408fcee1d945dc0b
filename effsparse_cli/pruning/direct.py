"""Pruning to a direct sparsity: a fixed number of connections is kept, however many of them are active."""

from __future__ import annotations

import numpy as np

from effsparse_cli.errors import UsageError
from effsparse_cli.formatting import plural
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.plan import PrunePlan, connections_left
from effsparse_cli.pruning.quotas import counts, densities
from effsparse_cli.pruning.ranking import Ranking
from effsparse_cli.pruning.scope import Scope


def count_kept_outside(scope: Scope) -> int:
    """Return the number of connections kept in layers that count but are not pruned."""
    others = [name for name in scope.counted if name not in scope.pruned]
    return sum(int(np.count_nonzero(scope.graph.layers[name].kept())) for name in others)


def prune_to_count(plan: PrunePlan, ranking: Ranking) -> dict[str, Bools]:
    """Keep the best connections of all layers together, or of each layer up to its quota."""
    scope = ranking.scope
    outside = count_kept_outside(scope)
    left = connections_left(plan.target, scope.connections) - outside
    if left < 0:
        raise UsageError(
            f"the layers left out keep {plural(outside, 'connection')}, but the target leaves only {left + outside:,}. "
            "Lower the target, or prune more layers"
        )
    if ranking.quota is None:
        return ranking.best(scope.pruned, left)
    sparsity = 1 - left / sum(layer.weights for layer in ranking.quota.layers)
    shares = counts(densities(ranking.quota, sparsity), ranking.quota.layers, sparsity)
    return {name: ranking.best([name], int(count))[name] for name, count in zip(scope.pruned, shares, strict=True)}

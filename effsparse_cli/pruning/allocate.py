"""Compare the connections that several quotas keep in each layer of a model at one direct sparsity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning import GLOBAL
from effsparse_cli.pruning.plan import PrunePlan, connections_left
from effsparse_cli.pruning.quotas import LayerSize, counts, densities
from effsparse_cli.pruning.ranking import check_names, find_quota, score_layers
from effsparse_cli.pruning.scope import find_scope
from effsparse_cli.pruning.topk import keep_best


@dataclass(frozen=True)
class Allocation:
    """Kept connections per layer, in the order of the layers."""

    lsq: str
    kept: tuple[int, ...]


@dataclass(frozen=True)
class Allocations:
    layers: tuple[LayerSize, ...]
    allocations: tuple[Allocation, ...]
    notes: tuple[str, ...] = ()


def allocate(graph: Graph, plan: PrunePlan, lsqs: Sequence[str]) -> Allocations:
    """Apply each quota to the plan's target. The quota "global" is what the plan's method leaves each layer when it
    ranks all layers together. A quota that cannot reach the target is named in the notes; it is an error if none
    can."""
    for lsq in lsqs:
        check_names(replace(plan, lsq=lsq))
    scope = find_scope(graph, plan)
    layers = tuple(LayerSize(name, scope.layouts[name].shape, graph.layers[name].op) for name in scope.pruned)
    total = sum(layer.weights for layer in layers)
    left = connections_left(plan.target, total)
    allocations, notes = [], []
    for lsq in lsqs:
        try:
            quota = find_quota(plan, lsq, scope)
            if quota is None:
                best = keep_best(score_layers(plan, plan.method, scope), left)
                kept = tuple(int(np.count_nonzero(mask)) for mask in best.values())
            else:
                sparsity = 1 - left / total
                kept = tuple(counts(densities(quota, sparsity), layers, sparsity).tolist())
        except UsageError as error:
            notes.append(str(error))
            continue
        allocations.append(Allocation(f"{plan.method}, {GLOBAL}" if lsq == GLOBAL else lsq, kept))
    if not allocations:
        raise UsageError(notes[0])
    return Allocations(layers, tuple(allocations), tuple(notes))

"""What quotas give the layers of one model at one direct sparsity, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths.layouts import find_layouts
from effsparse_cli.pruning.parts import find_parts
from effsparse_cli.pruning.plan import Plan, wanted
from effsparse_cli.pruning.quotas import LayerSize, counts, densities
from effsparse_cli.pruning.ranking import GLOBAL, check_names, find_quota, score
from effsparse_cli.pruning.select import keep_best


@dataclass(frozen=True)
class Allocation:
    """Kept connections per layer, in the order of the layers."""

    lsq: str
    kept: tuple[int, ...]


@dataclass(frozen=True)
class Allocations:
    layers: tuple[LayerSize, ...]
    found: tuple[Allocation, ...]
    notes: tuple[str, ...] = ()


def allocate(graph: Graph, plan: Plan, lsqs: Sequence[str]) -> Allocations:
    """A quota that cannot reach the target is named in the notes; if none can, that is an error. The quota
    "global" is what the plan's method leaves each layer when it ranks all layers together."""
    for lsq in lsqs:
        check_names(Plan(plan.target, plan.method, lsq))
    parts, layouts = find_parts(graph, plan), find_layouts(graph)
    layers = tuple(LayerSize(name, layouts[name].shape, graph.layers[name].op) for name in parts.pruned)
    total = sum(layer.weights for layer in layers)
    left = wanted(plan.target, total)
    found, notes = [], []
    for lsq in lsqs:
        try:
            quota = find_quota(graph, plan, lsq, parts, layouts)
            if quota is None:
                best = keep_best(score(graph, plan, plan.method, parts, layouts), left)
                kept = tuple(int(np.count_nonzero(mask)) for mask in best.values())
            else:
                sparsity = 1 - left / total
                kept = tuple(counts(densities(quota, sparsity), layers, sparsity).tolist())
        except UsageError as error:
            notes.append(str(error))
            continue
        found.append(Allocation(f"{plan.method}, {GLOBAL}" if lsq == GLOBAL else lsq, kept))
    if not found:
        raise UsageError(notes[0])
    return Allocations(layers, tuple(found), tuple(notes))

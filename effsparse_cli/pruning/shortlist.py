"""Find the threshold of a sparse target quickly: rank only the best connections, and search among them.

At a sparsity of 99 %, only one connection in a hundred matters. Ranking twice the number of connections that the target
keeps avoids sorting whole layers, and an exact pass over these few is far cheaper than a bottleneck pass over all of
them. Interpolation needs about ten passes. The result equals that of the bottleneck pass, which runs instead if the
shortlist is too short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.quotas import find_pressure
from effsparse_cli.pruning.ranking import ScoredLayers
from effsparse_cli.pruning.scope import Scope, find_available
from effsparse_cli.pruning.scores.ranks import order_best
from effsparse_cli.pruning.target import Threshold, count_active
from effsparse_cli.pruning.topk import kth_largest

LENGTH = 2
"""Connections on the shortlist, per connection that the target leaves."""


@dataclass(frozen=True)
class Shortlist:
    """By layer, the flat stored positions of its best connections and their scores. No connection with a score above
    `floor` is missing."""

    scope: Scope
    positions: Mapping[str, Ints]
    scores: Mapping[str, NDArray[np.float64]]
    floor: float

    def masks(self, threshold: float) -> dict[str, Bools]:
        """Return masks of the connections with scores >= threshold."""
        masks = {}
        for name, positions in self.positions.items():
            mask = np.zeros(math.prod(self.scope.graph.layers[name].shape), bool)
            mask[positions[self.scores[name] >= threshold]] = True
            masks[name] = mask.reshape(self.scope.graph.layers[name].shape)
        return masks

    def ties(self, threshold: float) -> bool:
        """Whether several connections have exactly this score."""
        return sum(int(np.count_nonzero(array == threshold)) for array in self.scores.values()) > 1


def make_shortlist(plan: PrunePlan, scored: ScoredLayers, wanted: int) -> Shortlist | None:
    """Return the best connections of the ranking, None if the plan's ranking or target is not suited."""
    scope, base, quota = scored.scope, scored.base, scored.quota
    length = LENGTH * wanted
    everything_ranked = scope.pruned == tuple(scope.graph.operands)
    if plan.pattern is not None or plan.device != "cpu" or not everything_ranked or 4 * length > scope.connections:
        return None
    if quota is None:
        floor = kth_largest([base[name] for name in scope.pruned], length)
        best = {name: np.flatnonzero(base[name] >= floor) for name in scope.pruned}
        scores = {name: base[name].reshape(-1)[at].astype(np.float64) for name, at in best.items()}
    else:
        floor = find_pressure(quota, length)
        densities = dict(zip(scope.pruned, quota.at(floor), strict=True))
        best, scores = {}, {}
        for i, name in enumerate(scope.pruned):
            n = base[name].size
            # Two more than the density says: rounding must not make the list incomplete above its floor.
            best[name] = order_best(base[name], min(n, math.ceil(densities[name] * n) + 2))
            scores[name] = quota.score(i, (np.arange(n - len(best[name]), n) + 0.5) / n)
    if sum(map(len, best.values())) > scope.connections // 2:
        return None
    positions = {name: scope.layouts[name].stored_positions(at) for name, at in best.items()}
    usable = {name: find_available(scope.graph, plan, name).reshape(-1)[at] for name, at in positions.items()}
    return Shortlist(
        scope,
        {name: at[usable[name]] for name, at in positions.items()},
        {name: array[usable[name]] for name, array in scores.items()},
        floor,
    )


def search_shortlist(shortlist: Shortlist, wanted: int) -> Threshold | None:
    """Return the highest threshold that leaves at least `wanted` active connections, None if the list is too short."""
    levels, kept = np.unique(np.concatenate(list(shortlist.scores.values())), return_counts=True)
    levels, kept = levels[::-1], np.cumsum(kept[::-1])
    passes = 0

    def count(i: int) -> int:
        nonlocal passes
        passes += 1
        graph = shortlist.scope.graph.with_masks(shortlist.masks(float(levels[i])))
        return count_active(graph, shortlist.scope.counted)

    # No fewer kept connections than `wanted` can be enough: go down from there, by what is missing.
    low = int(np.searchsorted(kept, wanted))
    high, high_active = low - 1, -1
    if low == len(levels):
        return None
    low_active = count(low)
    while low_active < wanted:
        high, high_active = low, low_active
        if low == len(levels) - 1:
            return None
        missing = max(wanted - low_active, int(kept[low]) // 16)
        low = min(max(int(np.searchsorted(kept, kept[low] + missing)), low + 1), len(levels) - 1)
        low_active = count(low)
    low, low_active, high_active = _narrow(count, (high, high_active), (low, low_active), wanted)
    if not levels[low] > shortlist.floor:
        return None
    if high_active < 0:
        high_active = count(low - 1) if low > 0 else 0
    return Threshold(float(levels[low]), low_active, high_active, passes)


def _narrow(
    count: Callable[[int], int], high: tuple[int, int], low: tuple[int, int], wanted: int
) -> tuple[int, int, int]:
    """Return the first level with enough active connections and their number, and the number at the level before.

    `high` and `low` are levels with too few and with enough. Interpolates, and bisects every third step: numbers of
    active connections are nearly, but not everywhere, proportional to those of kept ones.
    """
    (i, i_active), (j, j_active) = high, low
    steps = 0
    while j - i > 1:
        steps += 1
        share = 0.5 if steps % 3 == 0 else (wanted - i_active) / (j_active - i_active)
        k = min(max(i + round(share * (j - i)), i + 1), j - 1)
        active = count(k)
        if active >= wanted:
            j, j_active = k, active
        else:
            i, i_active = k, active
    return j, j_active, i_active

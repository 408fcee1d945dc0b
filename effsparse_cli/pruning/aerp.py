"""Approximate Effective Random Pruning, the paper's Algorithm 1: random pruning within a quota, bisecting the number of
pruned weights with one exact pass per step. The bisection is sound because the networks are nested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.quotas import Quota, densities, reach

FlatMask = NDArray[np.bool_]


@dataclass(frozen=True)
class AerpResult:
    """Flat masks in the order of the quota's layers: `kept`, and `next_step`, the network one step sparser."""

    kept: list[FlatMask]
    next_step: list[FlatMask]
    active: int
    next_active: int
    passes: int


def run_aerp(
    quota: Quota, available: Mapping[str, Bools], seed: int, wanted: int, count: Callable[[list[FlatMask]], int]
) -> AerpResult:
    """Return the sparsest network of the bisection that still has `wanted` active connections.

    `count` counts the active connections of a network. Draws are raw bits of one Philox stream per layer, so that a
    seed gives the same result everywhere.

    Two differences from Algorithm 1: moving the upper end down sets its pruned weights to those of the middle network,
    as the paper's text describes ("P without T" in the listing is an error); and the lower end also moves up if the
    effective sparsity equals the target.
    """
    layers = quota.layers
    streams = [np.random.Philox(key=seed + (position << 64)) for position in range(len(layers))]
    kept = [available[layer.name].reshape(-1).copy() for layer in layers]
    pruned = [np.ones(layer.weights, bool) for layer in layers]
    total = sum(layer.weights for layer in layers)
    least, most = reach(quota)
    i, j = math.ceil(least * total), math.ceil(most * total)
    active, next_active, passes = count(kept), 0, 1
    while j - i > 1:
        m = (i + j) // 2
        shares = densities(quota, m / total)
        middle = [
            _prune(kept[k], pruned[k], round(float(shares[k]) * layer.weights), streams[k])
            for k, layer in enumerate(layers)
        ]
        middle_active = count(middle)
        passes += 1
        if middle_active >= wanted:
            i, kept, active = m, middle, middle_active
        else:
            j, pruned, next_active = m, [~mask for mask in middle], middle_active
    return AerpResult(kept, [~mask for mask in pruned], active, next_active, passes)


def _prune(kept: FlatMask, pruned: FlatMask, left: int, stream: np.random.Philox) -> FlatMask:
    """Prune at random to `left` weights, among those kept in the denser and pruned in the sparser network."""
    free = np.flatnonzero(kept & pruned)
    excess = min(max(int(np.count_nonzero(kept)) - left, 0), len(free))
    drawn = np.asarray(stream.random_raw(len(free)), dtype=np.uint64)
    middle = kept.copy()
    middle[free[np.argsort(drawn, kind="stable")[:excess]]] = False
    return middle

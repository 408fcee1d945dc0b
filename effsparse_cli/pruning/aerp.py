"""Approximate Effective Random Pruning, the paper's Algorithm 1: random pruning within a quota, bisected over the
number of pruned weights with one exact pass a step. Nested networks make the bisection sound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.quotas import Quota, densities, reach

Flat = NDArray[np.bool_]


@dataclass(frozen=True)
class Found:
    """Flat masks in the order of the quota's layers: `kept`, and `further`, the network one step sparser."""

    kept: list[Flat]
    further: list[Flat]
    active: int
    next_active: int
    passes: int


def aerp(
    quota: Quota, available: Mapping[str, Bools], seed: int, want: int, count: Callable[[list[Flat]], int]
) -> Found:
    """`count` tells how many connections a network has active. Draws are raw bits of one Philox stream per layer,
    so that a seed means the same everywhere.

    Algorithm 1 writes "P without T" for the sparser network's pruned weights when that moves down; its text says
    what is meant and done here: what the middle network has pruned. It moves up where the effective sparsity is
    below the target; here also where it is just the target.
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
        found = count(middle)
        passes += 1
        if found >= want:
            i, kept, active = m, middle, found
        else:
            j, pruned, next_active = m, [~mask for mask in middle], found
    return Found(kept, [~mask for mask in pruned], active, next_active, passes)


def _prune(kept: Flat, pruned: Flat, leave: int, stream: np.random.Philox) -> Flat:
    """Takes weights at random from those kept in the denser and pruned in the sparser network."""
    free = np.flatnonzero(kept & pruned)
    gone = min(max(int(np.count_nonzero(kept)) - leave, 0), len(free))
    drawn = np.asarray(stream.random_raw(len(free)), dtype=np.uint64)
    middle = kept.copy()
    middle[free[np.argsort(drawn, kind="stable")[:gone]]] = False
    return middle

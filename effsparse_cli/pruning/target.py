"""Pruning a ranking to a target number of active connections: one bottleneck pass, then a few exact ones.

The bottleneck of a connection is the threshold at which it dies, so the K-th largest is the threshold that
leaves K active. Bottlenecks are those of whole channels; where single positions matter fewer connections
are active than they say, and exact passes settle the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.bottleneck import find_bottlenecks
from effsparse_cli.pruning.select import Scores, kth_largest

Count = Callable[[float], int]


@dataclass(frozen=True)
class Reached:
    """The subnetwork of all scores >= threshold: how many connections are active, and after how many exact
    passes that was known. `next_active` is what the next higher threshold would leave (0: disconnected)."""

    threshold: float
    active: int
    next_active: int
    passes: int


def active_count(graph: Graph, scores: Mapping[str, Scores], counted: Collection[str], threshold: float) -> int:
    """Exactly, at the level of single positions."""
    return count_active(graph.with_masks({name: array >= threshold for name, array in scores.items()}), counted)


def count_active(graph: Graph, counted: Collection[str]) -> int:
    found = find_paths(graph)
    return sum(found[name].count("active") for name in counted)


def prune_to_active(
    graph: Graph, scores: Mapping[str, Scores], counted: Collection[str], want: int, device: str = "cpu"
) -> Reached:
    """The highest threshold that leaves at least `want` active connections. The bottleneck pass runs on `device`,
    the exact ones on the CPU."""
    bottlenecks = find_bottlenecks(graph, scores, device)
    ranked = [bottlenecks[name] for name in counted]
    alive = sum(int(np.count_nonzero(array > -np.inf)) for array in ranked)
    if not alive:
        raise UsageError("the network is disconnected before anything is pruned, so it has nothing to keep connected")
    passes = 0

    def count(threshold: float) -> int:
        nonlocal passes
        passes += 1
        return active_count(graph, scores, counted, threshold)

    # Above the K-th largest bottleneck fewer than K channels' worth can be active: a bound from above.
    place = min(max(want, 1), alive)
    high, high_active = kth_largest(ranked, place), -1
    low, low_active = high, count(high)
    while low_active < want and place < alive:
        high, high_active = low, low_active
        place = min(alive, place + max(want - low_active, place // 8, 1))
        low = kth_largest(ranked, place)
        low_active = count(low) if low < high else low_active
    if low == high:
        return Reached(low, low_active, _next_active(ranked, low, count), passes)
    low, low_active, high_active = _bisect(ranked, low, low_active, high, high_active, want, count)
    return Reached(low, low_active, high_active, passes)


def _bisect(
    ranked: list[Scores], low: float, low_active: int, high: float, high_active: int, want: int, count: Count
) -> tuple[float, int, int]:
    """Between a threshold that leaves enough and one that does not, over the bottlenecks that occur: the
    number of active connections changes nowhere else."""
    inside = np.unique(np.concatenate([a[(a >= low) & (a <= high)] for a in ranked]))
    first, last = 0, len(inside) - 1
    while last - first > 1:
        middle = (first + last) // 2
        active = count(float(inside[middle]))
        if active >= want:
            first, low_active = middle, active
        else:
            last, high_active = middle, active
    return float(inside[first]), low_active, high_active


def _next_active(ranked: list[Scores], threshold: float, count: Count) -> int:
    """What the next higher threshold leaves."""
    above = [a[a > threshold] for a in ranked]
    higher = min((float(a.min()) for a in above if a.size), default=None)
    return 0 if higher is None else count(higher)

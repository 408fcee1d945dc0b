"""Pruning a ranking to a number of active connections: one bottleneck pass, then a few exact passes.

The bottleneck of a connection is the threshold at which it becomes inactive, so the K-th largest bottleneck is the
threshold that leaves K active. Bottlenecks are computed for whole channels. Where single positions matter, fewer
connections are active than they predict, and exact passes settle the difference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.bottleneck.scores import find_bottlenecks
from effsparse_cli.pruning.topk import Scores, kth_largest

Count = Callable[[float], int]


@dataclass(frozen=True)
class Threshold:
    """A threshold on the scores: connections with scores >= `value` are kept, and `active` of them are active.

    `next_active` is the number that the next higher threshold leaves active (0: disconnected). `passes` is the number
    of exact passes that it took.
    """

    value: float
    active: int
    next_active: int
    passes: int


def count_active_at(graph: Graph, scores: Mapping[str, Scores], counted: Collection[str], threshold: float) -> int:
    return count_active(graph.with_masks({name: array >= threshold for name, array in scores.items()}), counted)


def count_active(graph: Graph, counted: Collection[str]) -> int:
    """Count the active connections of some layers exactly, at the level of single positions."""
    edges = find_paths(graph)
    return sum(edges[name].count("active") for name in counted)


def find_threshold(
    graph: Graph, scores: Mapping[str, Scores], counted: Collection[str], wanted: int, device: str = "cpu"
) -> Threshold:
    """Return the highest threshold that leaves at least `wanted` active connections.

    The bottleneck pass runs on `device`, the exact passes on the CPU.
    """
    bottlenecks = find_bottlenecks(graph, scores, device)
    ranked = [bottlenecks[name] for name in counted]
    alive = sum(int(np.count_nonzero(array > -np.inf)) for array in ranked)
    if not alive:
        raise UsageError("the network is disconnected before pruning, so no target can be reached")
    passes = 0

    def count(threshold: float) -> int:
        nonlocal passes
        passes += 1
        return count_active_at(graph, scores, counted, threshold)

    # Above the K-th largest bottleneck fewer than K connections are active: an upper bound of the threshold.
    place = min(max(wanted, 1), alive)
    high, high_active = kth_largest(ranked, place), -1
    low, low_active = high, count(high)
    while low_active < wanted and place < alive:
        high, high_active = low, low_active
        place = min(alive, place + max(wanted - low_active, place // 8, 1))
        low = kth_largest(ranked, place)
        low_active = count(low) if low < high else low_active
    if low == high:
        return Threshold(low, low_active, _count_next(ranked, low, count), passes)
    # The number of active connections changes only at bottlenecks: bisect those in between.
    inside = np.unique(np.concatenate([a[(a >= low) & (a <= high)] for a in ranked]))
    first, last = 0, len(inside) - 1
    while last - first > 1:
        middle = (first + last) // 2
        active = count(float(inside[middle]))
        if active >= wanted:
            first, low_active = middle, active
        else:
            last, high_active = middle, active
    return Threshold(float(inside[first]), low_active, high_active, passes)


def _count_next(ranked: list[Scores], threshold: float, count: Count) -> int:
    """Return the number of active connections at the next higher threshold."""
    above = [a[a > threshold] for a in ranked]
    higher = min((float(a.min()) for a in above if a.size), default=None)
    return 0 if higher is None else count(higher)


def search_threshold(graph: Graph, scores: Mapping[str, Scores], counted: Collection[str], wanted: int) -> Threshold:
    """Return the same threshold by the paper's search: bisect the ranking, with one exact pass per step. It is slower
    than the bottleneck pass, and kept for comparison. If no threshold leaves `wanted`, return the lowest score."""
    ranked = np.unique(np.concatenate([scores[name].reshape(-1) for name in counted]))
    ranked = ranked[ranked > -np.inf]
    low, high, passes = 0, len(ranked), 1
    low_active, high_active = count_active_at(graph, scores, counted, float(ranked[0])), 0
    while high - low > 1:
        middle = (low + high) // 2
        active = count_active_at(graph, scores, counted, float(ranked[middle]))
        passes += 1
        if active >= wanted:
            low, low_active = middle, active
        else:
            high, high_active = middle, active
    return Threshold(float(ranked[low]), low_active, high_active, passes)

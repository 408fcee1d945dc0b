"""The curve of effective against direct sparsity: one ranking, many thresholds, each counted exactly.

One bottleneck pass finds the point past which the network is disconnected, so no pass is spent beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.ranking import quota_name, rank
from effsparse_cli.pruning.scope import find_scope
from effsparse_cli.pruning.target import count_active_at, find_threshold
from effsparse_cli.pruning.topk import kth_largest


@dataclass(frozen=True)
class Point:
    """`compression` is that of the grid, `kept` and `active` are the resulting counts (0 active: disconnected)."""

    compression: float
    kept: int
    active: int


@dataclass(frozen=True)
class Curve:
    """`last` is the sparsest connected network of the ranking."""

    method: str
    lsq: str
    seed: int
    connections: int
    points: tuple[Point, ...]
    last: Point


def find_curve(graph: Graph, plan: PrunePlan, points: int) -> Curve:
    """Return the curve of the plan's ranking; the plan's target is ignored."""
    connections = find_scope(graph, plan).connections
    compressions = list(grid(connections, points))
    ranking = rank(graph, replace(plan, target=1 - 1 / Fraction(compressions[-1])))
    counted = ranking.scope.counted
    ranked = [ranking.scores[name] for name in counted]
    available = sum(int(np.count_nonzero(array > -np.inf)) for array in ranked)

    def count_kept(threshold: float) -> int:
        return sum(int(np.count_nonzero(array >= threshold)) for array in ranked)

    end = find_threshold(graph, ranking.scores, counted, 1, plan.device)
    found = []
    for compression in compressions:
        keep = round(connections / compression)
        if keep > available:
            continue
        threshold = kth_largest(ranked, keep)
        active = count_active_at(graph, ranking.scores, counted, threshold) if threshold <= end.value else 0
        found.append(Point(compression, count_kept(threshold), active))
    kept = count_kept(end.value)
    last = Point(connections / kept, kept, end.active)
    return Curve(plan.method, quota_name(plan), plan.seed, connections, tuple(found), last)


def grid(connections: int, points: int) -> Iterator[float]:
    """Yield compressions from 1 to a single kept connection, evenly spaced on a log scale."""
    for i in range(points):
        yield math.exp(math.log(connections) * i / max(points - 1, 1))

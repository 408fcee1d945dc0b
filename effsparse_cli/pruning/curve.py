"""The curve of effective against direct sparsity: one ranking, many thresholds, each counted exactly.

One bottleneck pass finds the point past which the network is disconnected, so no pass is spent beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.ranking import Ranking, quota_name, rank
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


def find_curve(graph: Graph, plan: PrunePlan, points: int, furthest: float | None = None) -> Curve:
    """Return the curve of the plan's ranking, from what is available now to the compression `furthest`, by default
    that of the sparsest connected network. The plan's target is ignored."""
    ranking, last = _rank_to_end(graph, plan)
    counted, connections = ranking.scope.counted, ranking.scope.connections
    ranked = [ranking.scores[name] for name in counted]
    available = sum(int(np.count_nonzero(array > -np.inf)) for array in ranked)
    found = []
    for compression in grid(connections / available, furthest or last.compression, points):
        threshold = kth_largest(ranked, min(round(connections / compression), available))
        kept = _count_kept(ranking, threshold)
        active = count_active_at(graph, ranking.scores, counted, threshold) if kept >= last.kept else 0
        found.append(Point(compression, kept, active))
    return Curve(plan.method, quota_name(plan), plan.seed, connections, tuple(found), last)


def find_last(graph: Graph, plan: PrunePlan) -> Point:
    """Return the sparsest connected network of the plan's ranking."""
    return _rank_to_end(graph, plan)[1]


def _rank_to_end(graph: Graph, plan: PrunePlan) -> tuple[Ranking, Point]:
    connections = find_scope(graph, plan).connections
    ranking = rank(graph, replace(plan, target=1 - Fraction(1, connections)))
    end = find_threshold(graph, ranking.scores, ranking.scope.counted, 1, plan.device)
    kept = _count_kept(ranking, end.value)
    return ranking, Point(connections / kept, kept, end.active)


def _count_kept(ranking: Ranking, threshold: float) -> int:
    return sum(int(np.count_nonzero(ranking.scores[name] >= threshold)) for name in ranking.scope.counted)


def grid(first: float, last: float, points: int) -> Iterator[float]:
    """Yield compressions from `first` to `last`, evenly spaced on a log scale."""
    for i in range(points):
        yield first * (last / first) ** (i / max(points - 1, 1))

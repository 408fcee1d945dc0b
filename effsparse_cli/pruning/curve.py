"""Effective against direct sparsity over the whole range: one ranking, many thresholds, each counted exactly.

One bottleneck pass gives the point past which the network is disconnected, so that no pass is spent beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.parts import find_parts
from effsparse_cli.pruning.plan import Plan
from effsparse_cli.pruning.ranking import quota_name, rank
from effsparse_cli.pruning.select import kth_largest
from effsparse_cli.pruning.target import active_count, prune_to_active


@dataclass(frozen=True)
class Point:
    """`asked` is the compression of the grid, `kept` and `active` what it gives; none active: disconnected."""

    asked: float
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


def find_curve(graph: Graph, plan: Plan, points: int) -> Curve:
    """The plan's own target plays no part."""
    connections = find_parts(graph, plan).connections
    asked = list(grid(connections, points))
    ranking = rank(graph, replace(plan, target=1 - 1 / Fraction(asked[-1])))
    counted = ranking.parts.counted
    ranked = [ranking.scores[name] for name in counted]
    most = sum(int(np.count_nonzero(array > -np.inf)) for array in ranked)

    def point(compression: float, threshold: float, active: int) -> Point:
        return Point(compression, sum(int(np.count_nonzero(a >= threshold)) for a in ranked), active)

    end = prune_to_active(graph, ranking.scores, counted, 1, plan.device)
    found = []
    for compression in asked:
        keep = round(connections / compression)
        if keep > most:
            continue
        threshold = kth_largest(ranked, keep)
        active = active_count(graph, ranking.scores, counted, threshold) if threshold <= end.threshold else 0
        found.append(point(compression, threshold, active))
    last = point(0.0, end.threshold, end.active)
    last = replace(last, asked=connections / last.kept)
    return Curve(plan.method, quota_name(plan), plan.seed, connections, tuple(found), last)


def grid(connections: int, points: int) -> Iterator[float]:
    """Compressions from 1 to one connection in all, evenly on a log scale."""
    for i in range(points):
        yield math.exp(math.log(connections) * i / max(points - 1, 1))

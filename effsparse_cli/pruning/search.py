"""The paper's way to an effective target: a binary search on the ranking, each step one exact pass. Slower than the
bottleneck pass and equal to it; kept for comparison, and as the reference in tests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.select import Scores
from effsparse_cli.pruning.target import Reached, active_count


def search(graph: Graph, scores: Mapping[str, Scores], counted: Collection[str], want: int) -> Reached:
    """The highest threshold, of the scores that occur, that leaves at least `want` active connections (the lowest
    of all where none does)."""
    ranked = np.unique(np.concatenate([scores[name].reshape(-1) for name in counted]))
    ranked = ranked[ranked > -np.inf]
    low, high, passes = 0, len(ranked), 1
    low_active, high_active = active_count(graph, scores, counted, float(ranked[0])), 0
    while high - low > 1:
        middle = (low + high) // 2
        active = active_count(graph, scores, counted, float(ranked[middle]))
        passes += 1
        if active >= want:
            low, low_active = middle, active
        else:
            high, high_active = middle, active
    return Reached(float(ranked[low]), low_active, high_active, passes)

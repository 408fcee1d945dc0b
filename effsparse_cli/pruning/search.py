"""The paper's search for an effective target: bisect the ranking, with one exact pass per step.

Slower than the bottleneck pass, with the same result: kept for comparison, and as the reference in tests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.target import Threshold, count_active_at
from effsparse_cli.pruning.topk import Scores


def search_threshold(graph: Graph, scores: Mapping[str, Scores], counted: Collection[str], wanted: int) -> Threshold:
    """Return the highest score that leaves at least `wanted` active connections as a threshold (the lowest score if
    none does)."""
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

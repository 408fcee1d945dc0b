"""Pruning in rounds as one ranking: each round removes the lowest scores of what is left, and the order in which
connections are removed over all rounds is the score.

Unlike the last mask alone, this ranking can be pruned to any sparsity at or above that of the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools
from effsparse_cli.progress import step
from effsparse_cli.pruning.scores.ranks import order_within
from effsparse_cli.pruning.topk import keep_best

Scores = NDArray[np.floating[Any]]


def rank_by_rounds(
    masks: Mapping[str, Bools],
    density: float,
    rounds: int,
    score_masked: Callable[[Mapping[str, Bools]], Mapping[str, Scores]],
) -> dict[str, Scores]:
    """Prune to density^(k / rounds) in round k, and return when each connection was removed (-inf: never kept).

    `score_masked` scores the connections of a network given by its masks. A removed connection never returns.
    """
    total = sum(mask.size for mask in masks.values())
    removal_order = {name: np.full(mask.shape, -np.inf) for name, mask in masks.items()}
    removed = 0
    with step("pruning in rounds", rounds) as advance:
        for k in range(1, rounds + 1):
            scores = score_masked(masks)
            scores = {name: np.where(mask, scores[name], -np.inf) for name, mask in masks.items()}
            # The last round ranks everything that is left.
            keep = kept_after(density ** (k / rounds), total) if k < rounds else 0
            after = keep_best(scores, keep)
            removed = _record(removal_order, masks, after, scores, removed)
            masks = after
            advance(1)
    return removal_order


def kept_after(density: float, total: int) -> int:
    """Return the number of connections left at a density, rounded as in SynFlow's code.

    That code rounds the number of removed connections down, in this order of operations. Rounding the number of kept
    connections instead changes 4.5 % of a LeNet-300-100 mask at 1000x.
    """
    return total - int((1.0 - density) * total)


def _record(
    removal_order: Mapping[str, Scores],
    before: Mapping[str, Bools],
    after: Mapping[str, Bools],
    scores: Mapping[str, Scores],
    removed: int,
) -> int:
    """Number the connections removed in this round, lowest score first, and return how many are removed in all."""
    positions = {name: np.flatnonzero(before[name] & ~after[name]) for name in before}
    together = np.concatenate([scores[name].reshape(-1)[at] for name, at in positions.items()])
    numbers = np.empty(together.size)
    numbers[order_within(together)] = np.arange(removed, removed + together.size)
    start = 0
    for name, at in positions.items():
        removal_order[name].reshape(-1)[at] = numbers[start : start + len(at)]
        start += len(at)
    return removed + together.size

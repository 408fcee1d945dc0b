"""Pruning in rounds as one ranking: in each round the lowest of what is left falls, and the order in which
connections fall over all rounds is the score.

A ranking of all connections, not only the last mask, can be pruned to any target at or above the last round's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.scores.ranks import order_within
from effsparse_cli.pruning.select import keep_best

Scores = NDArray[np.floating[Any]]


def rank_by_rounds(
    start: Mapping[str, Bools], density: float, rounds: int, look: Callable[[Mapping[str, Bools]], Mapping[str, Scores]]
) -> dict[str, Scores]:
    """Density rho^(k / rounds) of all connections after round k. `look` scores the connections of a network
    given by its masks; what is pruned there never returns. Never kept: -inf."""
    total = sum(mask.size for mask in start.values())
    masks = dict(start)
    fallen = {name: np.full(mask.shape, -np.inf) for name, mask in start.items()}
    place = 0
    for k in range(1, rounds + 1):
        found = look(masks)
        alive = {name: np.where(masks[name], found[name], -np.inf) for name in masks}
        # The last round ranks what is left; there is nothing after it to be looked at again.
        keep = kept_after(density ** (k / rounds), total) if k < rounds else 0
        after = keep_best(alive, keep)
        place = _record(fallen, masks, after, alive, place)
        masks = after
    return fallen


def kept_after(density: float, total: int) -> int:
    """Connections left at a density. SynFlow's code rounds the number to remove down, and its order of computation
    matters: rounding the number to keep instead changes 4.5 % of a LeNet-300-100 mask at 1000x."""
    return total - int((1.0 - density) * total)


def _record(
    fallen: Mapping[str, Scores],
    before: Mapping[str, Bools],
    after: Mapping[str, Bools],
    scores: Mapping[str, Scores],
    place: int,
) -> int:
    """Numbers what fell in this round, the lowest first; gives the next number."""
    gone = {name: np.flatnonzero(before[name] & ~after[name]) for name in before}
    together = np.concatenate([scores[name].reshape(-1)[where] for name, where in gone.items()])
    places = np.empty(together.size)
    places[order_within(together)] = np.arange(place, place + together.size)
    start = 0
    for name, where in gone.items():
        fallen[name].reshape(-1)[where] = places[start : start + len(where)]
        start += len(where)
    return place + together.size

"""The quota of another method's global ranking (the paper's "random with corresponding quotas"): each layer keeps as
many connections as that ranking would leave it, whichever these are.

If the method empties a layer early, so does its quota.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.pruning.quotas.allocation import Floats, LayerSize, Quota, sizes_of
from effsparse_cli.pruning.scores.ranks import rank_within


def from_scores(name: str, layers: Sequence[LayerSize], scores: Sequence[NDArray[np.floating[Any]]]) -> Quota:
    """Return the quota of `scores`, one array per layer without NaN. The pressure is the number of pruned weights.

    Ties are broken as in selection: the earlier layer, then the earlier position, is kept longer.
    """
    sizes = sizes_of(layers)
    ranks = rank_within(np.concatenate([np.ravel(values) for values in scores]))
    own = [np.sort(part) for part in np.split(ranks, np.cumsum(sizes.astype(np.int64))[:-1])]

    def at(pruned: float) -> Floats:
        whole = math.floor(min(pruned, ranks.size))
        gone = np.array([np.searchsorted(part, (whole, whole + 1)) for part in own], dtype=np.float64)
        # Interpolate between whole numbers, which makes the total exact at every pressure.
        share = gone[:, 0] + min(pruned - whole, 1) * (gone[:, 1] - gone[:, 0])
        density: Floats = 1 - share / sizes
        return density

    def score(layer: int, u: Floats) -> Floats:
        place = np.floor(u * sizes[layer]).astype(np.int64)
        pressure: Floats = own[layer][place] + 0.5
        return pressure

    return Quota(name, tuple(layers), at, score)

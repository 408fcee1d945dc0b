"""The quota that a method's own global ranking gives (the paper's "random with corresponding quotas"): scores of
every weight enter, and the layers keep as many as that ranking would leave them, whichever these are.

Where the method empties a layer early, so does its quota.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.pruning.quotas.allocation import Floats, LayerSize, Quota, sizes_of
from effsparse_cli.pruning.scores.ranks import rank_within


def quota(name: str, layers: Sequence[LayerSize], scores: Sequence[NDArray[np.floating[Any]]]) -> Quota:
    """`scores` hold no NaN, one array per layer, high = kept, ties as in selection: the earlier layer, then the
    earlier position is kept longer. The pressure is how many weights of the net have fallen."""
    sizes = sizes_of(layers)
    ranks = rank_within(np.concatenate([np.ravel(values) for values in scores]))
    own = [np.sort(part) for part in np.split(ranks, np.cumsum(sizes.astype(np.int64))[:-1])]

    def at(fallen: float) -> Floats:
        whole = math.floor(min(fallen, ranks.size))
        gone = np.array([np.searchsorted(part, (whole, whole + 1)) for part in own], dtype=np.float64)
        # Between two whole numbers one weight is on its way: that makes the total exact at every pressure.
        share = gone[:, 0] + min(fallen - whole, 1) * (gone[:, 1] - gone[:, 0])
        density: Floats = 1 - share / sizes
        return density

    def score(layer: int, u: Floats) -> Floats:
        place = np.floor(u * sizes[layer]).astype(np.int64)
        pressure: Floats = own[layer][place] + 0.5
        return pressure

    return Quota(name, tuple(layers), at, score)

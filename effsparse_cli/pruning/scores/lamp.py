"""LAMP (Lee et al. 2021): w_u^2 over the sum of w_v^2 of all v in the layer that are not smaller than u, a magnitude
that can be compared between layers. The largest weight of every layer has score 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.pruning.scores.magnitude import magnitude
from effsparse_cli.pruning.scores.ranks import order_within


def score(values: Sequence[NDArray[Any]], seed: int) -> list[NDArray[np.floating[Any]]]:
    """The seed plays no part. Among equal weights the earlier position counts as the larger."""
    return [_score(magnitude(value)) for value in values]


def _score(sizes: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    order = order_within(sizes)
    rising = sizes.reshape(-1)[order].astype(np.float64)
    finite = int(np.searchsorted(rising, np.inf))
    scores = np.full(sizes.size, np.inf)
    if finite:
        # Only ratios matter, so the largest is made 1: no square overflows.
        squares = np.square(rising[:finite] / (rising[finite - 1] or 1.0))
        # Summed from the top: the total minus what is below would lose the tail.
        tails = np.cumsum(squares[::-1])[::-1]
        scores[order[:finite]] = np.divide(squares, tails, out=np.zeros(finite), where=tails > 0)
    return scores.reshape(sizes.shape)

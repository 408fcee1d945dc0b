"""LAMP (Lee et al. 2021): the squared weight over the sum of squares of all weights of the layer that are not smaller.

This is a magnitude that can be compared between layers: the largest weight of every layer has score 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.pruning.scores.inputs import LayerScores, ScoreInput, Scores
from effsparse_cli.pruning.scores.magnitude import magnitude
from effsparse_cli.pruning.scores.ranks import order_within


def score(inputs: ScoreInput) -> LayerScores:
    """Among equal weights the earlier position counts as the larger."""
    return {name: lamp(magnitude(inputs.values(name))) for name in inputs.layers}


def lamp(magnitudes: Scores) -> NDArray[np.float64]:
    order = order_within(magnitudes)
    ascending = magnitudes.reshape(-1)[order].astype(np.float64)
    finite = int(np.searchsorted(ascending, np.inf))
    scores = np.full(magnitudes.size, np.inf)
    if finite:
        # Only ratios matter, so scale the largest to 1: no square overflows.
        squares = np.square(ascending[:finite] / (ascending[finite - 1] or 1.0))
        # Sum from the top: subtracting a prefix sum from the total would lose the tail.
        tails = np.cumsum(squares[::-1])[::-1]
        scores[order[:finite]] = np.divide(squares, tails, out=np.zeros(finite), where=tails > 0)
    return scores.reshape(magnitudes.shape)

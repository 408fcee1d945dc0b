"""Magnitude: the absolute value of each weight. NaN and infinite weights are pruned last: they are never small."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.pruning.scores.inputs import LayerScores, ScoreInput, Scores


def score(inputs: ScoreInput) -> LayerScores:
    return {name: magnitude(inputs.values(name)) for name in inputs.layers}


def magnitude(weights: NDArray[Any]) -> Scores:
    """Return the magnitudes in the weights' own precision, but at least float32."""
    magnitudes: Scores = np.abs(weights.astype(np.result_type(weights.dtype, np.float32), copy=False))
    magnitudes[np.isnan(magnitudes)] = np.inf
    return magnitudes

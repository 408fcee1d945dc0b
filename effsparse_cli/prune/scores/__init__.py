"""Scores that need no data: weights enter, one array per layer leaves, high = kept.

Weights come in execution order and in the canonical layout (rows are outputs), whichever file they are from:
position decides between equals, and what a seed draws. Leave layers out after scoring, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.prune.scores import lamp, magnitude, random
from effsparse_cli.prune.scores.ranks import order_within, rank_within

Score = Callable[[Sequence[NDArray[Any]], int], list[NDArray[np.floating[Any]]]]

SCORES: dict[str, Score] = {
    "random": random.score,
    "magnitude": magnitude.score,
    "lamp": lamp.score,
}

__all__ = ["SCORES", "Score", "order_within", "rank_within"]

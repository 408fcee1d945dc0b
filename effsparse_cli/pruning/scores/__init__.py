"""Scores: what is low goes first.

Those in SCORES take weights alone: arrays in execution order and in the canonical layout (rows are outputs),
whichever file they are from; position decides between equals, and what a seed draws. Leave layers out after
scoring, not before. The others take the graph, because paths or data decide (METHODS has them all).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.pruning.scores import lamp, magnitude, random, sensitivity, synflow
from effsparse_cli.pruning.scores.given import ScoreInput, values_of
from effsparse_cli.pruning.scores.ranks import order_within, rank_within

Scores = NDArray[np.floating[Any]]
Score = Callable[[Sequence[NDArray[Any]], int], list[Scores]]

SCORES: dict[str, Score] = {
    "random": random.score,
    "magnitude": magnitude.score,
    "lamp": lamp.score,
}


@dataclass(frozen=True)
class Method:
    """`lsq` is the quota that goes with it unless another is asked for; `reads_values` tells whether a weight's
    value has a say; `of_graph` scores the layers that take part, in their stored shapes."""

    lsq: str
    reads_values: bool = True
    needs_data: bool = False
    of_graph: Callable[[ScoreInput], dict[str, Scores]] | None = None


METHODS: dict[str, Method] = {
    "magnitude": Method("igq"),
    "random": Method("igq", reads_values=False),
    "lamp": Method("global"),
    "synflow": Method("global", of_graph=synflow.score),
    "snip": Method("global", needs_data=True, of_graph=sensitivity.snip),
    "snip-iterative": Method("global", needs_data=True, of_graph=sensitivity.snip_iterative),
    "force": Method("global", needs_data=True, of_graph=sensitivity.force),
    "grasp": Method("global", needs_data=True, of_graph=sensitivity.grasp),
}

__all__ = ["METHODS", "SCORES", "Method", "Score", "ScoreInput", "order_within", "rank_within", "values_of"]

"""Scores from data: how the loss, or the flow of its gradient, depends on each weight. The gradients are given.

| name | what is low goes first |
|---|---|
| snip (Lee et al. 2019) | |g w|, one shot |
| snip-iterative (de Jorge et al. 2021) | the same over 300 exponential rounds, what is removed stays removed |
| force (de Jorge et al. 2021) | the same, but removed ones return: all weights have a gradient at the pruned net |
| grasp (Wang et al. 2020) | w Hg: the score of the paper is its negative, and the largest of that go |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.plan import Gradients
from effsparse_cli.pruning.scores.given import ScoreInput, values_of
from effsparse_cli.pruning.scores.rounds import rank_by_rounds
from effsparse_cli.pruning.select import keep_best

Scores = dict[str, NDArray[np.floating[Any]]]
ROUNDS = 300


def snip(given: ScoreInput) -> Scores:
    return _saliency(given, given.start())


def snip_iterative(given: ScoreInput) -> Scores:
    return rank_by_rounds(given.start(), given.density, given.rounds or ROUNDS, lambda masks: _saliency(given, masks))


def force(given: ScoreInput) -> Scores:
    rounds = given.rounds or ROUNDS
    start = given.start()
    total = sum(mask.size for mask in start.values())
    scores = _saliency(given, start)
    for k in range(1, rounds):
        allowed = {name: np.where(start[name], scores[name], -np.inf) for name in start}
        scores = _saliency(given, keep_best(allowed, round(given.density ** (k / rounds) * total)))
    return scores


def grasp(given: ScoreInput) -> Scores:
    flow = _gradients(given).of_flow(given.write(given.start()))
    return given.read({name: _finite(name, flow[name] * _weights(given, name)) for name in given.layers})


def _saliency(given: ScoreInput, masks: Mapping[str, Bools]) -> Scores:
    """|g w| for every weight, removed ones with their own value."""
    slopes = _gradients(given).of_loss(given.write(masks))
    return given.read({name: _finite(name, np.abs(slopes[name] * _weights(given, name))) for name in given.layers})


def _weights(given: ScoreInput, name: str) -> NDArray[np.float64]:
    return values_of(given.graph.layers[name]).astype(np.float64)


def _gradients(given: ScoreInput) -> Gradients:
    if given.gradients is None:
        raise UsageError("this method needs data: methods that need none are random, magnitude, lamp and synflow")
    return given.gradients


def _finite(name: str, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    if np.isnan(scores).any():
        raise UsageError(f"the gradients of {name} are not numbers: check the data, the loss and the weights")
    return scores

"""Scores from data: how the loss, or the norm of its gradient, depends on each weight.

| name | score (low scores are pruned first) |
|---|---|
| snip (Lee et al. 2019) | |g w|, one shot |
| snip-iterative (de Jorge et al. 2021) | the same over exponential rounds; removed weights stay removed |
| force (de Jorge et al. 2021) | the same, with gradients for all weights at the pruned network: they can return |
| grasp (Wang et al. 2020) | w Hg, the negative of the paper's score, of which the paper removes the largest |
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools
from effsparse_cli.progress import step
from effsparse_cli.pruning.scores.inputs import LayerScores, ScoreInput, check_numbers
from effsparse_cli.pruning.scores.rounds import rank_by_rounds
from effsparse_cli.pruning.topk import keep_best


def snip(inputs: ScoreInput) -> LayerScores:
    return _saliency(inputs, inputs.initial_masks())


def snip_iterative(inputs: ScoreInput) -> LayerScores:
    return rank_by_rounds(inputs.initial_masks(), inputs.density, inputs.rounds, lambda masks: _saliency(inputs, masks))


def force(inputs: ScoreInput) -> LayerScores:
    initial = inputs.initial_masks()
    total = sum(mask.size for mask in initial.values())
    scores = _saliency(inputs, initial)
    with step("pruning in rounds", inputs.rounds) as advance:
        for k in range(1, inputs.rounds):
            advance(1)
            allowed = {name: np.where(initial[name], scores[name], -np.inf) for name in initial}
            scores = _saliency(inputs, keep_best(allowed, round(inputs.density ** (k / inputs.rounds) * total)))
    return scores


def grasp(inputs: ScoreInput) -> LayerScores:
    flow = inputs.flow_gradients(inputs.initial_masks())
    return check_numbers({name: flow[name] * _weights(inputs, name) for name in inputs.layers})


def _saliency(inputs: ScoreInput, masks: Mapping[str, Bools]) -> LayerScores:
    """Return |g w| for every weight; removed weights count with their stored values."""
    gradients = inputs.loss_gradients(masks)
    return check_numbers({name: np.abs(gradients[name] * _weights(inputs, name)) for name in inputs.layers})


def _weights(inputs: ScoreInput, name: str) -> NDArray[np.float64]:
    return inputs.values(name).astype(np.float64)

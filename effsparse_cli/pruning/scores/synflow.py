"""SynFlow (Tanaka et al. 2020): |dR/dw * w| for the path norm R of an all-ones input, over exponential rounds.

The scores come from one pass of the real semiring, so they exist for any graph and do not overflow at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.scores.inputs import LayerScores, ScoreInput, read_values
from effsparse_cli.pruning.scores.rounds import rank_by_rounds


def score(inputs: ScoreInput) -> LayerScores:
    from effsparse_cli.paths.real.synaptic import find_flow  # imports torch

    layers = inputs.graph.operands
    magnitudes = {name: np.abs(read_values(layer)) for name, layer in layers.items()}
    for name, array in magnitudes.items():
        if not np.isfinite(array).all():
            raise UsageError(f"{name} has infinite or NaN weights, so synaptic flow is not defined")
    fixed = {name: magnitudes[name] * layer.kept() for name, layer in layers.items() if name not in inputs.layers}

    def score_masked(masks: Mapping[str, Bools]) -> LayerScores:
        masked = {name: magnitudes[name] * mask for name, mask in inputs.to_stored(masks).items()}
        return inputs.to_canonical(find_flow(inputs.graph, fixed | masked, inputs.device))

    return rank_by_rounds(inputs.initial_masks(), inputs.density, inputs.rounds, score_masked)

"""SynFlow (Tanaka et al. 2020): |dR/dw * w| for the path norm R with an input of ones, over 100 rounds with density
rho^(k/100) after round k. From the real semiring, so on any graph and without overflow at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.synaptic import find_flow
from effsparse_cli.pruning.scores.given import ScoreInput, values_of
from effsparse_cli.pruning.scores.rounds import rank_by_rounds

ROUNDS = 100


def score(given: ScoreInput) -> dict[str, NDArray[np.floating[Any]]]:
    layers = given.graph.operands
    strengths = {name: np.abs(values_of(layer)) for name, layer in layers.items()}
    for name, strength in strengths.items():
        if not np.isfinite(strength).all():
            raise UsageError(f"{name} has values that are infinite or not numbers, so synaptic flow has no meaning")
    fixed = {name: strengths[name] * layer.kept() for name, layer in layers.items() if name not in given.layers}

    def look(masks: Mapping[str, Bools]) -> Mapping[str, NDArray[np.floating[Any]]]:
        left = {name: strengths[name] * mask for name, mask in given.write(masks).items()}
        return given.read(find_flow(given.graph, fixed | left, given.device))

    return rank_by_rounds(given.start(), given.density, given.rounds or ROUNDS, look)

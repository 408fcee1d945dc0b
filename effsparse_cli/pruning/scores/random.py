"""Random: a uniform score per weight, the same for one seed on every machine and in every format.

The bits come from the counter-based generator Philox4x64-10, keyed by the seed and the layer's position in execution
order, one word per weight. They are used raw: NumPy guarantees the streams of its bit generators, but not the
distributions computed from them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.pruning.scores.inputs import LayerScores, ScoreInput


def score(inputs: ScoreInput) -> LayerScores:
    """Draw scores keyed by positions in the whole model: leaving out a layer changes no other layer's scores."""
    if not 0 <= inputs.seed < 1 << 64:
        raise UsageError(f"seed {inputs.seed} is out of range: use a whole number from 0 to 2^64 - 1")
    positions = {name: position for position, name in enumerate(inputs.graph.layers)}
    return {name: draw(inputs.layouts[name].shape, inputs.seed, positions[name]) for name in inputs.layers}


def draw(shape: tuple[int, ...], seed: int, position: int) -> NDArray[np.float64]:
    """Place 52 random bits at the centers of their cells, so that neither 0 nor 1 occurs."""
    stream = np.random.Philox(key=seed + (position << 64))
    bits = np.asarray(stream.random_raw(math.prod(shape)), dtype=np.uint64)
    cells = (bits >> np.uint64(12)).astype(np.float64)
    return np.multiply(cells + 0.5, 2.0**-52).reshape(shape)

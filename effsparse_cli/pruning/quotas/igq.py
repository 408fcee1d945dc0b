"""Ideal Gas Quotas (the paper, section 4): layers are gas cylinders as high as their number of weights, and a force F
compresses each by 1 + F * weights. Every sparsity can be reached, and no layer is empty below a sparsity of 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from effsparse_cli.pruning.quotas.allocation import Floats, LayerSize, Quota, sizes_of


def quota(layers: Sequence[LayerSize]) -> Quota:
    """The pressure is the force F: a layer has density 1 / (1 + F n), so a weight is pruned at (1 / (1 - u) - 1) /
    n."""
    sizes = sizes_of(layers)

    def at(force: float) -> Floats:
        return np.reciprocal(1 + force * sizes)

    def score(layer: int, u: Floats) -> Floats:
        force: Floats = 1 - u
        force *= sizes[layer]
        return np.divide(u, force, out=force)

    return Quota("igq", tuple(layers), at, score)

"""Uniform+ (Gale et al. 2019): the first convolution stays dense, the last linear layer is at most 80 % sparse,
the rest is distributed evenly. High sparsities are out of reach. Without convolutions only the cap remains.
"""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.pruning.quotas.allocation import LayerSize, Quota, clipped

LAST_LINEAR_DENSITY = 0.2
"""Minimum density of the last linear layer."""


def quota(layers: Sequence[LayerSize]) -> Quota:
    floors = [0.0] * len(layers)
    convolutions = [i for i, layer in enumerate(layers) if layer.convolution]
    linear = [i for i, layer in enumerate(layers) if not layer.convolution]
    for i in linear[-1:]:
        floors[i] = LAST_LINEAR_DENSITY
    for i in convolutions[:1]:
        floors[i] = 1.0
    return clipped("uniform+", layers, [1] * len(layers), floors, [1] * len(layers))

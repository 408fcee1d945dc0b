"""Uniform+ (Gale et al. 2019): the first convolution stays dense, the last linear layer is at most 80 % sparse,
the rest is spread evenly. High sparsities are out of its reach. Without convolutions only the cap remains.
"""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.pruning.quotas.allocation import LayerSize, Quota
from effsparse_cli.pruning.quotas.clipped import clipped

LAST_LINEAR = 0.2
"""The least density of the last linear layer."""


def quota(layers: Sequence[LayerSize]) -> Quota:
    floors = [0.0] * len(layers)
    convolutions = [i for i, layer in enumerate(layers) if layer.convolution]
    linear = [i for i, layer in enumerate(layers) if not layer.convolution]
    for i in linear[-1:]:
        floors[i] = LAST_LINEAR
    for i in convolutions[:1]:
        floors[i] = 1.0
    return clipped("uniform+", layers, [1] * len(layers), floors, [1] * len(layers))
